package loadgen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"

	_ "github.com/caddy-llmlb/caddy-llmlb/simulator"
)

// simulated is the URL of a simulated server behind a real Caddy.
func simulated(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	err = caddy.Load(fmt.Appendf(nil, `{
		"admin": {"disabled": true, "config": {"persist": false}},
		"logging": {"logs": {"default": {"level": "PANIC"}}},
		"storage": {"module": "file_system", "root": %q},
		"apps": {"http": {"grace_period": "1s", "servers": {"sim": {
			"listen": [%q], "automatic_https": {"disable": true},
			"routes": [{"handle": [{"handler": "llm_simulator", "model": "sim", "engine": "8b-h100"}]}]
		}}}}
	}`, t.TempDir(), address), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address
}

// The whole command against a server that streams as an engine does.
func TestLoadOnASimulatedServer(t *testing.T) {
	url := simulated(t)
	for _, tc := range []struct {
		name string
		args []string
	}{
		{"open loop", []string{"--rate", "20", "--ramp", "500ms", "--input", "50-500", "--tenants", "3", "--prefixes", "2", "--prefix-tokens", "640"}},
		{"closed loop", []string{"--clients", "4", "--completions", "--think", "10ms", "--turns", "3"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			page, notes := filepath.Join(dir, "load.html"), filepath.Join(dir, "notes")
			stderr, err := os.Create(notes)
			if err != nil {
				t.Fatal(err)
			}
			defer stderr.Close()
			var out bytes.Buffer
			args := append([]string{url, "-m", "sim", "-d", "1500ms", "-o", "16", "--json", "-", "--html", page, "--fail-over", "0", "--seed", "3"}, tc.args...)
			if err := load(given(t, args...), &out, stderr); err != nil {
				t.Fatal(err)
			}
			var r Report
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("standard output is not JSON alone: %v", err)
			}
			g := r.Total
			if g.Offered < 5 || g.Outcomes[OK] != g.Offered || g.Output != 16*g.Offered || g.TTFT.Count != g.Offered {
				t.Errorf("%+v", g)
			}
			if g.TTFT.P50 <= 0 || g.ITL == nil || g.ITL.P99 <= 0 || g.E2E.P50 < g.TTFT.P50 {
				t.Errorf("times %+v, %+v, %+v", g.TTFT, g.ITL, g.E2E)
			}
			if g.Cached == 0 {
				t.Error("shared beginnings and repeated turns were never cached")
			}
			written, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if shown, _ := parsed(t, string(written)); !strings.Contains(shown, ms(g.TTFT.P99)) {
				t.Error("the page lacks the time to first token")
			}
			told, err := os.ReadFile(notes)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(told), "goodput") {
				t.Errorf("with JSON on standard output the table went nowhere: %q", told)
			}
		})
	}
}
