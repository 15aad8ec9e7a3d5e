//go:build unix

package command

import (
	"os/exec"
	"syscall"
	"time"
)

// Whole has a command of exec.CommandContext end with all that it has started: what is
// left of a compiler would go on writing where nobody cleans up any more.
func Whole(cmd *exec.Cmd) *exec.Cmd {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // else a terminal's Ctrl-C would reach some of them first
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
