package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// The policy in a plain reverse_proxy block chooses by scraped load and follows
// prefixes; it reads the body itself. By prefix_spill, since speeds learned from
// servers that compute nothing are those of the machine's other work.
func TestPolicyAloneFollowsLoadAndPrefixes(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("reverse_proxy %s %s {\nlb_policy llm {\nstrategy prefix_spill\n%s}\n}\n", a.addr(), b.addr(), fast))
	a.set(load{running: 30, waiting: 20, kv: 0.5})
	a.seen()
	b.seen()
	for i := range 10 {
		g.post(distinct(i))
	}
	if a.count() != 0 {
		t.Errorf("%d of 10 went to the server with a long queue", a.count())
	}

	a.set(load{})
	a.seen()
	long := prose("a long document", 12_000)
	// The last byte may reach the client a moment before its server counts as free,
	// and as one that holds the document.
	ask := func(question string) reply {
		defer g.idle(t)
		return g.post(chat(false, long, question))
	}
	ask("first")
	first, second := a.count(), b.count()
	for i := range 6 {
		if r := ask(fmt.Sprintf("question %d", i)); r.status != http.StatusOK {
			t.Fatalf("status %d", r.status)
		}
	}
	if a.count() != first && b.count() != second {
		t.Errorf("one prefix went to both servers: %d and %d more", a.count()-first, b.count()-second)
	}
}

// A retry after a refused connection sends the whole body again.
func TestRetryAfterRefusedConnectionSendsTheWholeBody(t *testing.T) {
	for name, format := range map[string]string{
		"llm_proxy":    "llm_proxy %s %s {\n" + fast + "}\n",
		"policy alone": "reverse_proxy %s %s {\nlb_policy llm {\n" + fast + "}\nlb_retries 2\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBackend(t)
			g := start(t, fmt.Sprintf(format, freeAddr(t), b.addr()))
			for i, size := range []int{2, 68_000, 2 << 20} {
				body := chat(false, "", fmt.Sprint(i)+strings.Repeat("y", size))
				for range 4 {
					if r := g.post(body); r.status != http.StatusOK {
						t.Fatalf("%d bytes: status %d: %s", size, r.status, r.body)
					}
					if got := b.lastBody(); string(got) != body {
						t.Fatalf("%d bytes arrived, want %d", len(got), len(body))
					}
				}
			}
			if b.count() != 12 {
				t.Errorf("%d requests arrived, want each once", b.count())
			}
		})
	}
}

// Upstreams that come and go are watched from first sight.
func TestDynamicUpstreams(t *testing.T) {
	a := newBackend(t)
	_, port, _ := strings.Cut(a.addr(), ":")
	for name, format := range map[string]string{
		"llm_proxy":    "llm_proxy {\ndynamic a 127.0.0.1 %s\n" + fast + "}\n",
		"policy alone": "reverse_proxy {\nlb_policy llm {\n" + fast + "}\ndynamic a 127.0.0.1 %s\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, fmt.Sprintf(format, port))
			body := chat(false, "", prose("dynamic", 4000))
			if r := g.post(body); r.status != http.StatusOK {
				t.Fatalf("status %d: %s", r.status, r.body)
			}
			if got := a.lastBody(); string(got) != body {
				t.Errorf("%d bytes arrived, want %d", len(got), len(body))
			}
			a.seen()
			eventually(t, "the endpoint's numbers", func() bool {
				pools := g.pools()
				return len(pools) == 1 && len(pools[0].Endpoints) == 1 && pools[0].Endpoints[0].Running != nil
			})
		})
	}
}
