package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// guarded is Caddy for the scripts of the example: what it runs ends with the test,
// however that ends.
const guarded = `#!/bin/sh
[ "$1" = run ] || exec "$REAL_CADDY" "$@"
"$REAL_CADDY" "$@" &
pid=$!
trap 'kill "$pid"' TERM
while kill -0 "$TEST_PID" 2>/dev/null && kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
kill "$pid" 2>/dev/null
wait "$pid"
`

// The example of a rolling update does what it says: four servers are restarted one
// after the other while clients stream, and none of them sees an error, a cut stream
// or a refusal.
func TestRollingUpdateUnderLoad(t *testing.T) {
	need(t)
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("server.sh needs curl, which is not here")
	}
	caddy, err := builtGateway()
	if err != nil {
		t.Fatal(err)
	}
	example, err := filepath.Abs("../examples/rolling-update")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	guard := filepath.Join(dir, "caddy")
	if err := os.WriteFile(guard, []byte(guarded), 0o700); err != nil {
		t.Fatal(err)
	}
	admin, port := fmt.Sprintf("127.0.0.1:%d", freePort(t)), freePort(t)
	env := []string{
		"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir, "RUN=" + dir,
		"CADDY=" + guard, "REAL_CADDY=" + caddy, fmt.Sprintf("TEST_PID=%d", os.Getpid()),
		"ADMIN=" + admin, fmt.Sprintf("PORT=%d", port),
	}
	names := []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4"}
	for i := range names {
		env = append(env, fmt.Sprintf("GPU_%d=127.0.0.1:%d", i+1, freePort(t)))
	}
	script := func(name string, args ...string) (string, error) {
		cmd := exec.Command(filepath.Join(example, name), args...)
		cmd.Env = append(os.Environ(), env...)
		printed, err := cmd.CombinedOutput()
		return string(printed), err
	}
	t.Cleanup(func() {
		for _, name := range names {
			_, _ = script("server.sh", "stop", name)
		}
	})
	for _, name := range names {
		for _, what := range []string{"start", "ready"} {
			if printed, err := script("server.sh", what, name); err != nil {
				t.Fatalf("%s of %s: %v\n%s", what, name, err, printed)
			}
		}
	}
	spawn(t, "the gateway", env, caddy, "run", "--config", filepath.Join(example, "Caddyfile"))
	url := fmt.Sprintf("http://127.0.0.1:%d", port)
	eventually(t, "the gateway to serve", func() error {
		_, err := get(t, url+"/v1/models")
		return err
	})

	report := filepath.Join(dir, "load.json")
	load := exec.Command(caddy, "llm-load", url, "--model", "sim", "--clients", "12", "--duration", "5m",
		"--input", "50-400", "--output", "20-200", "--fail-over", "0", "--json", report)
	var printed output
	load.Env, load.Stdout, load.Stderr = append(os.Environ(), env...), &printed, &printed
	if err := load.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = load.Process.Kill() }()
	time.Sleep(2 * time.Second) // until all servers have something to do
	began := time.Now()
	rolled, err := script("roll.sh")
	t.Logf("roll.sh took %v:\n%s", time.Since(began).Round(time.Millisecond), rolled)
	if err != nil {
		t.Errorf("roll.sh: %v", err)
	}
	time.Sleep(time.Second)
	if err := load.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := load.Wait(); err != nil {
		t.Errorf("llm-load: %v\n%s", err, printed.String())
	}

	for _, name := range names {
		if !strings.Contains(rolled, name+": drained after ") {
			t.Errorf("%s was not seen to be drained", name)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Total struct {
			Offered  int            `json:"offered"`
			Outcomes map[string]int `json:"outcomes"`
		} `json:"total"`
		Endpoints []struct {
			Name string `json:"name"`
		} `json:"endpoints"`
		Faults json.RawMessage `json:"faults"`
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d requests: %v", r.Total.Offered, r.Total.Outcomes)
	if len(r.Faults) > 0 || r.Total.Offered < 100 || len(r.Endpoints) != len(names) {
		t.Errorf("%d requests to %d servers, of which failed: %s", r.Total.Offered, len(r.Endpoints), bytes.TrimSpace(r.Faults))
	}
}
