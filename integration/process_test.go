package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// limit bounds each wait and each request. Only a failing test reaches it.
const limit = 20 * time.Second

// need skips a test unless the slow tests were asked for.
func need(t *testing.T) {
	t.Helper()
	if os.Getenv("LLMLB_INTEGRATION") != "1" {
		t.Skip("starts real programs; set LLMLB_INTEGRATION=1 to run it, as .ci/full does")
	}
}

// spawn runs a program until the test ends and shows what it printed if the test
// failed. The shell in between ends the program when its standard input closes,
// which the system does for us even when the test binary is killed: a simulator
// that listens on every interface must not outlive it. The id of the program's
// process, not the shell's, is returned.
func spawn(t *testing.T, name string, env []string, program string, args ...string) (pid int) {
	t.Helper()
	const guard = `"$@" 3>&- & pid=$!; echo "$pid" >&3; exec 3>&-; cat >/dev/null; kill -9 "$pid"; wait "$pid"`
	cmd := exec.Command("sh", append([]string{"-c", guard, "sh", program}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var printed output
	cmd.Stdout, cmd.Stderr = &printed, &printed
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatalf("preparing %s: %v", name, err)
	}
	told, tell, err := os.Pipe()
	if err != nil {
		t.Fatalf("preparing %s: %v", name, err)
	}
	defer told.Close()
	cmd.ExtraFiles = []*os.File{tell}
	err = cmd.Start()
	_ = tell.Close()
	if err != nil {
		t.Fatalf("starting %s: %v", name, err)
	}
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait() // always an error: the program was killed
		if t.Failed() {
			t.Logf("%s printed:\n%s", name, printed.String())
		}
	})
	if _, err := fmt.Fscan(told, &pid); err != nil {
		t.Fatalf("learning the process id of %s: %v", name, err)
	}
	return pid
}

// output collects what a process prints, from several goroutines.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// goBuild builds a main package in dir.
func goBuild(dir, output, pkg string, env ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", output, pkg)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	if printed, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %q: %w\n%s", pkg, err, printed)
	}
	return nil
}

// freePort is a loopback port that nobody uses at the moment.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// eventually tries f until it succeeds and fails the test with its last error.
func eventually(t *testing.T, what string, f func() error) {
	t.Helper()
	ticks := time.NewTicker(50 * time.Millisecond)
	defer ticks.Stop()
	deadline := time.After(limit)
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-ticks.C:
		case <-deadline:
			t.Fatalf("waiting %v for %s: %v", limit, what, err)
		}
	}
}

// get reads a page that must be there.
func get(t *testing.T, url string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	page, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s answered %d %s", url, res.StatusCode, page)
	}
	return string(page), nil
}
