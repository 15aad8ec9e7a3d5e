package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// explained asks the admin API for the last choices, the newest first.
func (g *gateway) explained() []llmlb.PickStatus {
	g.t.Helper()
	res := g.fromAdmin("/llmlb/explain")
	defer res.Body.Close()
	var picks []llmlb.PickStatus
	if err := json.NewDecoder(res.Body).Decode(&picks); err != nil {
		g.t.Fatal(err)
	}
	return picks
}

// A reload that changes scorers, and then the strategy, changes how the next
// request is chosen for and nothing that is known.
func TestAReloadThatChangesScorersKeepsWhatIsKnown(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	site := func(options string) string {
		return fmt.Sprintf("llm_proxy %s %s {\n%s%s%s\n}\n", a.addr(), b.addr(), fast, named(a, b), options)
	}
	g := start(t, site("strategy weighted\nscorer queue\nscorer prefix"))
	a.seen()
	b.seen()
	preamble := prose("kept over reloads", 8000)
	home := g.post(chat(false, preamble, "before")).endpoint()
	for i, tc := range []struct{ options, scorer string }{
		{"strategy weighted\nscorer queue\nscorer prefix", "queue"},
		{"strategy weighted\nscorer prefix 2\nscorer kv_memory 0.5", "kv_memory"},
		{"strategy weighted", "token_budget"},
		{"strategy prefix_spill", ""},
	} {
		if err := g.load(site(tc.options)); err != nil {
			t.Fatal(err)
		}
		r := g.post(chat(false, preamble, fmt.Sprint("after ", i)))
		if r.endpoint() != home || r.decision() != "warm" {
			t.Errorf("%s: the prefix is at %s, the request went to %s (%s)", tc.options, home, r.endpoint(), r.decision())
		}
		pick := g.explained()[0]
		c := pick.Candidates[0]
		if _, said := c.Parts[tc.scorer]; said != (tc.scorer != "") || (c.Score != nil) != said {
			t.Errorf("%s: explained as %+v", tc.options, c)
		}
	}
}

// Another of Caddy's policies works in the shorthand: with admission before it,
// which knows the limits, and with retries, for which the cookie of the server
// that did not answer is taken back.
func TestAPolicyOfCaddysInTheShorthand(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	t.Run("round_robin", func(t *testing.T) {
		g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%sstrategy round_robin\n}\n", a.addr(), b.addr(), fast, named(a, b)))
		got := map[string]int{}
		for i := range 10 {
			r := g.post(chat(true, "", fmt.Sprint("question ", i)))
			if r.status != http.StatusOK || r.body != streamed() || r.decision() != "policy" {
				t.Fatalf("status %d (%s), body %q", r.status, r.decision(), r.body)
			}
			got[r.endpoint()]++
		}
		if got["a"] != 5 || got["b"] != 5 {
			t.Errorf("split %v, want 5 each", got)
		}
	})
	t.Run("cookie and a dead server", func(t *testing.T) {
		g := start(t, fmt.Sprintf("llm_proxy %s %s {\npool cookies\n%sstrategy cookie llm {\nfallback first\n}\n}\n", freeAddr(t), b.addr(), fast))
		r := g.post(chat(false, "", "question"))
		if cookies := r.header["Set-Cookie"]; r.status != http.StatusOK || len(cookies) != 1 || !strings.HasPrefix(cookies[0], "llm=") {
			t.Errorf("status %d, cookies %q", r.status, cookies)
		}
		if got := r.header.Get("X-LLM-Attempts"); got != "2" {
			t.Errorf("%s attempts, want 2", got)
		}
	})
	t.Run("at its limit", func(t *testing.T) {
		c := newBackend(t)
		g := start(t, fmt.Sprintf("llm_proxy %s {\npool limits\nqueue {\nmax_wait 0\n}\n%sstrategy least_conn\nendpoint %s {\nmax_concurrent 1\n}\n}\n", c.addr(), fast, c.addr()))
		open := gate(c)
		finish := streams(g, 1)
		if r := g.post(chat(false, "", "one too many")); r.status != http.StatusTooManyRequests {
			t.Errorf("status %d, want 429", r.status)
		}
		open()
		finish()
	})
}
