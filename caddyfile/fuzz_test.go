package caddyfile

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Whatever somebody writes behind an option is either taken, and then it adapts to
// the same configuration each time and is one that Caddy reads, or refused with words.
func FuzzOption(f *testing.F) {
	for option, lines := range badValues {
		// Two of each: all of them are read before anything is made up.
		f.Add(option, lines[0])
		f.Add(option, lines[len(lines)-1])
	}
	for _, good := range []string{
		"pool chat\nengine vllm\nmetrics :9400/metrics", "scrape_interval 2s\nstale_after 10s", "strategy prefix_spill\naffinity 0.7 256\nspill_waiting 4\nspill_ttft 750ms",
		"strategy weighted\nscorer queue 2\nscorer prefix 3", "endpoint 10.4.0.11:8000 {\nname a\nmax_concurrent 3\ndrain\nweight 2\nzone z\n}\nlocal_zone z",
		"queue 50 {\nmax_wait 3s\nmax_tokens 100000\nmax_bytes 64MiB\n}", "class batch {\nheader X-Class batch\nshare 20%\ndeadline 10s\nsaturation 2\n}",
		"tenant {http.auth.user.id}\ntenant_limit weight 2 alice", "client_limit concurrent 4", "model small big", "circuit {\nfailures 3\nrate 20%\nopen_for 5s\n}",
		"readiness /health {\ninterval 2s\nfails 2\n}", "canary 10s {\nmax_tokens 1\nexpect yes\n}", "slo ttft 1s tpot 50ms", "kv_limit 90%\nindex_bytes 64MiB\norca on",
	} {
		name, line, _ := strings.Cut(good, " ")
		f.Add(name, line)
	}
	f.Fuzz(func(t *testing.T, option, line string) {
		lines := option + " " + line
		if !onlyOurs(lines) {
			t.Skip("not a line of this module's")
		}
		input := "{\nadmin off\n}\n:8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\n" + lines + "\n}\n}\n"
		config, err := adapt(input)
		if err != nil {
			if strings.TrimSpace(err.Error()) == "" {
				t.Fatal("refused without a word")
			}
			return
		}
		again, err := adapt(input)
		if err != nil || !bytes.Equal(config, again) {
			t.Fatalf("adapted another time it gives %s (%v), before it was %s", again, err, config)
		}
		var c caddy.Config
		if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
			t.Fatalf("Caddy cannot read what it adapts to: %v\n%s", err, config)
		}
		if !json.Valid(config) {
			t.Fatalf("not JSON: %s", config)
		}
		if err := caddy.Validate(&c); err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Fatal("found invalid without a word")
		}
	})
}

// onlyOurs tells whether the lines stay within the block and are options that this
// module reads: what Caddy does with its own is not for this test to find out.
func onlyOurs(lines string) bool {
	tokens, err := caddyfile.Tokenize([]byte(lines), "Caddyfile")
	if err != nil {
		return false
	}
	depth, line := 0, 0
	for i, token := range tokens {
		first := i == 0 || token.Line != line
		line = token.Line
		switch {
		case token.Text == "import" || strings.HasPrefix(token.Text, "{block"):
			return false
		case token.Text == "{":
			depth++
		case token.Text == "}":
			if depth--; depth < 0 {
				return false
			}
		case first && depth == 0:
			if token.Text == "transport" || !slices.Contains(optionNames(), token.Text) {
				return false
			}
			if token.Text == "strategy" && (i+1 == len(tokens) || !slices.Contains([]string{"work", "prefix_spill", "weighted"}, tokens[i+1].Text)) {
				return false
			}
		}
	}
	return depth == 0 && len(tokens) > 0
}

// The golden files are taken apart too: each is a whole configuration, of which no
// beginning may bring the adapter down.
func TestACaddyfileThatBreaksOff(t *testing.T) {
	files, err := filepath.Glob("testdata/*.caddyfiletest")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		input, _, _ := strings.Cut(read(t, file), divider+"\n")
		if len(input) > 2000 {
			input = input[:2000]
		}
		for end := range len(input) {
			if end%7 == 0 {
				_, _ = adapt(input[:end]) // panics fail the test
			}
		}
	}
}
