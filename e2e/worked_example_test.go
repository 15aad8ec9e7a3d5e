package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/cli"
)

// TestWorkedExample follows one prompt through a pool of four servers: its
// prefix is warm on a server that is busy, so it spills to the best other one,
// which makes two homes for it; the draining server gets nothing.
func TestWorkedExample(t *testing.T) {
	servers := map[string]*backend{}
	for _, name := range []string{"s11", "s12", "s13", "s14"} {
		servers[name] = newBackend(t)
	}
	site := func(strategy, drain string) string {
		var b strings.Builder
		b.WriteString("llm_proxy")
		for _, name := range []string{"s11", "s12", "s13", "s14"} {
			b.WriteString(" " + servers[name].addr())
		}
		// The long stream's head, which comes before its first token, tells where
		// it went.
		b.WriteString(" {\n" + fast + "first_token off\nstrategy " + strategy + "\nspill_waiting 3\nspill_ttft 500ms\n")
		for name, s := range servers {
			fmt.Fprintf(&b, "endpoint %s {\nname %s\n", s.addr(), name)
			if name == drain {
				b.WriteString("drain\n")
			}
			b.WriteString("}\n")
		}
		b.WriteString("}\n")
		return b.String()
	}
	settle := func(loads map[string]load) {
		for name, l := range loads {
			servers[name].set(l)
		}
		for name := range loads {
			servers[name].seen()
		}
	}
	full := load{kv: 0.97}

	for _, strategy := range []string{"prefix_spill", "work"} {
		t.Run(strategy, func(t *testing.T) {
			g := start(t, site(strategy, ""))

			// A stream runs on s14, still before its first token; then s14 is
			// told to drain.
			release := make(chan struct{})
			servers["s14"].answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				w.Header().Set("Content-Type", "text/event-stream")
				for _, e := range answerEvents[:1] {
					send(w, e)
				}
				<-release
				for _, e := range answerEvents[1:] {
					send(w, e)
				}
			})
			settle(map[string]load{"s11": full, "s12": full, "s13": full, "s14": {}})
			long, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "long")))
			if err != nil {
				t.Fatal(err)
			}
			if got := long.Header.Get("X-LLM-Endpoint"); got != "s14" {
				t.Fatalf("the long stream went to %s, want s14", got)
			}
			if err := g.load(site(strategy, "s14")); err != nil {
				t.Fatal(err)
			}

			// The preamble of 2,000 tokens is computed on s12.
			preamble := prose("preamble of "+strategy, 8000)
			settle(map[string]load{"s11": full, "s12": {}, "s13": full})
			if got := g.post(chat(false, preamble, "first")).endpoint(); got != "s12" {
				t.Fatalf("the first prompt went to %s, want s12", got)
			}

			settle(map[string]load{
				"s11": {14, 0, 0.61, 0.240},
				"s12": {16, 3, 0.88, 0.910},
				"s13": {9, 0, 0.44, 0.180},
				"s14": {0, 0, 0.03, 0},
			})
			var table strings.Builder
			if err := cli.FormatTable(&table, g.pools()); err != nil {
				t.Fatal(err)
			}
			for server, want := range map[string]string{
				"s11": "14 0 61% 240ms up",
				"s12": "16 3 88% 910ms up",
				"s13": "9 0 44% 180ms up",
				"s14": "0 0 3% – draining",
			} {
				if !hasRow(table.String(), server, want) {
					t.Errorf("no row %s %q in the table:\n%s", server, want, table.String())
				}
			}

			before14 := servers["s14"].count()
			spilled := g.post(chat(false, preamble, "second"))
			if spilled.endpoint() != "s13" {
				t.Errorf("the warm prompt went to %s (%s), want s13", spilled.endpoint(), spilled.decision())
			}
			if strategy == "prefix_spill" && spilled.decision() != "spill:waiting" {
				t.Errorf("decision %q, want spill:waiting", spilled.decision())
			}
			if !strings.HasPrefix(spilled.decision(), "spill:") {
				t.Errorf("decision %q, want a spill", spilled.decision())
			}

			// Two homes now: whichever of them is free is a warm choice.
			for _, home := range []string{"s13", "s12"} {
				busy := load{16, 9, 0.88, 0.910}
				l := map[string]load{"s11": busy, "s12": busy, "s13": busy}
				l[home] = load{9, 0, 0.44, 0.180}
				settle(l)
				next := g.post(chat(false, preamble, "third for "+home))
				if next.endpoint() != home || next.decision() != "warm" {
					t.Errorf("went to %s (%s), want the warm %s", next.endpoint(), next.decision(), home)
				}
			}
			if got := servers["s14"].count(); got != before14 {
				t.Errorf("%d requests went to the draining server", got-before14)
			}

			// Its last stream ends whole, and it has drained.
			if state := g.endpoint("s14").State; state != "draining" {
				t.Errorf("s14 is %s while its stream runs, want draining", state)
			}
			close(release)
			if got := read(t, long).body; got != streamed() {
				t.Errorf("the long stream was changed or cut: %q", got)
			}
			servers["s14"].await("s14 to go idle", func() bool { return servers["s14"].open == 0 })
			eventually(t, "s14 to be drained", func() bool { return g.endpoint("s14").State == "drained" })
		})
	}
}

// hasRow reports whether the line that names the server has the fields in
// order, whatever stands between.
func hasRow(table, server, fields string) bool {
	for line := range strings.Lines(table) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != server {
			continue
		}
		want := strings.Fields(fields)
		for _, w := range words {
			if len(want) > 0 && w == want[0] {
				want = want[1:]
			}
		}
		if len(want) == 0 {
			return true
		}
	}
	return false
}
