package simulator

import (
	"context"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A reload while a stream is open loses nothing of the stream, and the server
// keeps its memory and its counters; when the options change it is a new one.
func TestReloadWithOpenStream(t *testing.T) {
	address := freeAddress(t)
	url := "http://" + address
	const same = `"name": "stays", "speed": 20`
	if err := load(t, address, same); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })

	prompt := `"` + strings.Repeat("abcd", 640) + `"`
	stream := send(t, t.Context(), url+"/v1/completions", `{"prompt":`+prompt+`,"max_tokens":4000,"stream":true}`)
	eventually(t, "the first token", func() bool {
		return value(t, scrape(t, url), "vllm:generation_tokens_total") > 0
	})
	for range 3 {
		if err := load(t, address, same); err != nil {
			t.Fatal(err)
		}
	}
	s := scrape(t, url)
	if value(t, s, "vllm:generation_tokens_total") == 0 || value(t, s, "vllm:prompt_tokens_total") != 640 {
		t.Error("the server lost its state on a reload")
	}
	_, data := ask(t, url+"/v1/completions", `{"prompt":`+prompt+`,"max_tokens":1}`)
	if got := decode(t, data).Usage.Details.CachedTokens; got != 639 {
		t.Errorf("%d tokens cached after the reload, want 639", got)
	}

	// Other options mean another server, as other flags would.
	if err := load(t, address, same+`, "max_seqs": 7`); err != nil {
		t.Fatal(err)
	}
	if s := scrape(t, url); value(t, s, "vllm:prompt_tokens_total") != 0 {
		t.Error("a server with other options has the counters of the old one")
	}
	// A config that does not load changes nothing.
	if err := load(t, address, `"engine": "none"`); err == nil {
		t.Fatal("a config with an unknown engine was loaded")
	}
	if text := textOf(readStream(t, stream.Body)); len(text) != 4000*bytesPerToken {
		t.Errorf("the stream has %d bytes of text, want %d", len(text), 4000*bytesPerToken)
	}
	eventually(t, "forgetting the old server", func() bool {
		return poolSize() == 1
	})
}

// A request that is still open keeps its server for a configuration that
// brings it back.
func TestServerComesBack(t *testing.T) {
	address := freeAddress(t)
	url := "http://" + address
	if err := load(t, address, `"name": "back", "speed": 2`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	send(t, ctx, url+"/v1/completions", `{"prompt":"x","max_tokens":5000,"stream":true}`)
	eventually(t, "the sequence", func() bool {
		return value(t, scrape(t, url), "vllm:num_requests_running") == 1
	})
	for _, options := range []string{`"name": "other"`, `"name": "back", "speed": 2`} {
		if err := load(t, address, options); err != nil {
			t.Fatal(err)
		}
	}
	if got := value(t, scrape(t, url), "vllm:num_requests_running"); got != 1 {
		t.Errorf("%v running after the server came back, want 1", got)
	}
	leave()
	// The client's departure over a real connection reaches the engine.
	eventually(t, "freeing the sequence", func() bool {
		s := scrape(t, url)
		return value(t, s, "vllm:num_requests_running") == 0 && value(t, s, "vllm:kv_cache_usage_perc") == 0
	})
}

func poolSize() int {
	n := 0
	servers.Range(func(_, _ any) bool { n++; return true })
	return n
}

func TestProvisionRefuses(t *testing.T) {
	for _, tc := range []struct{ options, text string }{
		{`"engine": "abacus"`, `checking engine "abacus": unknown; have 8b-h100`},
		{`"name": "a b"`, `checking name "a b"`},
		{`"speed": -1`, "checking speed -1"},
		{`"speed": 1e9`, "checking speed 1e+09"},
		{`"reply_tokens": -1`, "checking reply_tokens -1"},
		{`"max_seqs": -1`, "max sequences of -1"},
		{`"kv_tokens": 5`, "hold no block"},
		{`"max_batched_tokens": 99999999999`, "max batched tokens of 99999999999"},
		{`"colour": "red"`, "colour"},
	} {
		before := poolSize()
		if err := load(t, freeAddress(t), tc.options); err == nil || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.options, err)
			_ = caddy.Stop()
		}
		if poolSize() != before {
			t.Errorf("%s: a server was left behind", tc.options)
		}
	}
}
