package command

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
)

// Interruptible returns a context that ends at the first interrupt, of which the user
// is told at once. The second one ends the program, whatever it does.
func Interruptible(what string) (ctx context.Context, stop func()) {
	ctx, end := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	quiet := context.AfterFunc(ctx, func() {
		end()
		fmt.Fprint(os.Stderr, wipe()+what+"\n")
	})
	return ctx, func() {
		quiet()
		end()
	}
}

// wipe takes away the line of a terminal that is being written over.
func wipe() string {
	if Terminal(os.Stderr) {
		return "\r\x1b[K"
	}
	return ""
}

// Terminal tells whether somebody looks at the file.
func Terminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}

// Build compiles a package into a folder, and returns the program. What the compiler
// needs for a while stays in the folder, too.
func Build(ctx context.Context, folder, pkg string, flags ...string) (string, error) {
	program := filepath.Join(folder, filepath.Base(pkg))
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build", "-o", program}, flags...), pkg)...) //nolint:gosec // nothing of it comes from outside
	cmd.Env = append(os.Environ(), "GOTMPDIR="+folder)
	if out, err := Whole(cmd).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s, from the root of the checkout: %w: %s", pkg, err, out)
	}
	return program, nil
}
