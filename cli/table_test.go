package cli

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var update = flag.Bool("update", false, "write the golden files anew")

// row is a server with fresh numbers.
func row(name, address string, running, waiting, kv, ttft float64) llmlb.EndpointStatus {
	return llmlb.EndpointStatus{
		Name: name, Address: address, State: "up", Engine: "vllm",
		Running: new(running), Waiting: new(waiting), KVUsage: new(kv), TTFTMillis: new(ttft),
		TokensPerSecond: new(running * 40), ScrapeAgeMillis: new(800.0),
	}
}

// worked is the pool of four servers that the documentation uses throughout.
func worked() llmlb.PoolStatus {
	fourth := row("ep-4", "10.4.0.14:8000", 0, 0, 0.03, 0)
	fourth.State, fourth.TTFTMillis, fourth.TokensPerSecond = "draining", nil, new(0.0)
	return llmlb.PoolStatus{Pool: "default", Strategy: "prefix_spill", Endpoints: []llmlb.EndpointStatus{
		row("ep-1a2b3c", "10.4.0.11:8000", 14, 0, 0.61, 240),
		row("ep-77e0d1", "10.4.0.12:8000", 16, 3, 0.88, 910),
		row("ep-00c4fe", "10.4.0.13:8000", 9, 0, 0.44, 180),
		fourth,
	}}
}

// An operator reads the same figures in the same columns that the engines and
// our own accounts gave, and never a 0 for what nobody knows.
func TestFormatTable(t *testing.T) {
	blind := row("gpu-b", "10.4.0.22:8000", 5, 1, 0.5, 1234)
	blind.Blind, blind.ScrapeAgeMillis, blind.Reason = true, new(12_400.0), "page of HTML"
	stale := row("gpu-c", "10.4.0.23:8000", 5, 1, 0.5, 999.6)
	stale.Blind, stale.ScrapeAgeMillis = true, new(75_000.0)
	broken := row("gpu-e", "10.4.0.25:8000", 2, 0, 0.1, 300)
	broken.State, broken.Circuit = "down", "open"
	broken.Reason, broken.Next = "circuit open: 5 failures in a row, the last: first_token_timeout", "trial in 4s"
	busy := row("gpu-f", "10.4.0.26:8000", 32, 9, 0.97, 2400)
	busy.State, busy.Reason, busy.Next = "overloaded", "has too much to do", "new work in 1.2s"
	loadless := row("gpu-d", "10.4.0.24:11434", 0, 0, 0, 180) // tells models, and no load
	loadless.Blind, loadless.Loadless = true, true
	loading := row("gpu-1", "10.4.0.41:8000", 0, 0, 0, 0)
	loading.State, loading.Reason, loading.Running, loading.Waiting, loading.KVUsage, loading.TTFTMillis, loading.TokensPerSecond = "starting", "loading its model", nil, nil, nil, nil, nil
	warming := row("gpu-2", "10.4.0.42:8000", 2, 0, 0.08, 210)
	warming.Share = 0.34
	slow := row("gpu-3", "10.4.0.43:8000", 3, 0, 0.2, 1900)
	slow.State, slow.Reason, slow.Share = "degraded", "first token after 1.9s when idle, usually 210ms", 0.25
	leaving := row("gpu-4", "10.4.0.44:8000", 3, 0, 0.31, 240)
	leaving.State, leaving.Reason, leaving.Share = "draining", "3 open here; limit in 2m0s", 0.5
	left := row("gpu-5", "10.4.0.45:8000", 0, 0, 0.02, 0)
	left.State, left.TTFTMillis, left.TokensPerSecond, left.Share = "drained", nil, new(0.0), 1
	gone := row("gpu-6", "10.4.0.46:8000", 0, 0, 0, 0)
	gone.State, gone.Reason, gone.Running, gone.Waiting, gone.KVUsage, gone.TTFTMillis, gone.TokensPerSecond = "down", "no answer to /health within 5s", nil, nil, nil, nil, nil
	for _, r := range []*llmlb.EndpointStatus{&blind, &stale, &loadless} {
		r.Running, r.Waiting, r.KVUsage, r.TokensPerSecond = nil, nil, nil, nil
	}
	for _, tc := range []struct {
		name  string
		pools []llmlb.PoolStatus
	}{
		{"worked_example", []llmlb.PoolStatus{worked()}},
		{"nothing_known", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{
			{Name: "ep-000001", Address: "[::1]:8000", State: "down", Reason: "connection refused", Blind: true},
			{Name: "ep-000002", Address: "llm:80", State: "up", Blind: true},
		}}}},
		{"stale_numbers", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{blind, stale, loadless}}}},
		{"broken_and_busy", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{broken, busy}}}},
		{"every_state", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{loading, warming, slow, leaving, left, busy, gone}}}},
		{"all_down", []llmlb.PoolStatus{{Pool: "default", AllDown: true, Endpoints: []llmlb.EndpointStatus{gone}}}},
		{"all_refused", []llmlb.PoolStatus{{Pool: "default", AllRefused: true, Endpoints: []llmlb.EndpointStatus{gone}}}},
		{"two_pools", []llmlb.PoolStatus{worked(), {Pool: "embed", Strategy: "work"}}},
		{"hostile_text", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{
			{Name: "größe", Address: "10.4.0.31:8000", State: "down", Reason: "\x1b[2Jgone\r\nup"},
		}}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			if err := FormatTable(&b, tc.pools); err != nil {
				t.Fatal(err)
			}
			golden(t, tc.name+".txt", b.String())
		})
	}
}

// What the documents show is what the commands print.
func TestDocumentedTables(t *testing.T) {
	for _, tc := range []struct{ document, file string }{
		{"monitoring.md", "explain_as_documented.txt"},
		{"monitoring.md", "rates_learned.txt"},
		{"caddyfile.md", "worked_example.txt"},
	} {
		document, err := os.ReadFile(filepath.Join("..", "docs", tc.document))
		if err != nil {
			t.Fatal(err)
		}
		table, err := os.ReadFile(filepath.Join("testdata", tc.file))
		if err != nil {
			t.Fatal(err)
		}
		shown := string(table)
		if _, second, ok := strings.Cut(shown, "\n\nserver"); ok { // the second table of --rates
			shown = "server" + second
		}
		if !strings.Contains(string(document), shown) {
			t.Errorf("docs/%s does not show\n%s", tc.document, shown)
		}
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	path := filepath.Join("testdata", file)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("table differs from %s\ngot:\n%s\nwant:\n%s", path, got, want)
	}
}

func TestLatencyRounding(t *testing.T) {
	for ms, want := range map[float64]string{0: "0ms", 0.4: "0ms", 240: "240ms", 999.4: "999ms", 999.6: "1.0s", 1234: "1.2s", 65_000: "65.0s"} {
		if got := latency(&ms); got != want {
			t.Errorf("latency(%v) = %q, want %q", ms, got, want)
		}
	}
}
