//go:build !unix

package command

import "os/exec"

// Whole does nothing where there are no groups of processes.
func Whole(cmd *exec.Cmd) *exec.Cmd { return cmd }
