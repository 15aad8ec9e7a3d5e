package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// A server is exchanged for another under load, as in a rolling update: a reload
// adds the new one and drains the old one, or names the new one alone. The request
// that waited for the old one is served by the new one, through the proxy of the
// configuration that it came under.
func TestARequestThatWaitsGoesToTheServerThatWasAdded(t *testing.T) {
	for name, drained := range map[string]bool{"the old one drains": true, "the old one is gone": false} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			limited := fmt.Sprintf("endpoint %s {\nname a\nmax_concurrent 1\n}\n", a.addr())
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s%s}\n", a.addr(), fast, patient, limited))
			open := gate(a)
			defer open()
			finish := holdStream(g, chat(true, "", "runs"))
			waits := g.later(t, chat(true, "", "waits"))
			eventually(t, "the request to wait", func() bool { return g.queued() == 1 })

			after := fmt.Sprintf("llm_proxy %s {\n%s%sendpoint %s {\nname b\n}\n}\n", b.addr(), fast, patient, b.addr())
			if drained {
				after = fmt.Sprintf("llm_proxy %s %s {\n%s%sendpoint %s {\nname a\ndrain\n}\nendpoint %s {\nname b\n}\n}\n",
					a.addr(), b.addr(), fast, patient, a.addr(), b.addr())
			}
			if err := g.load(after); err != nil {
				t.Fatal(err)
			}
			if r := arrives(t, "the answer of the new server", waits); r.status != http.StatusOK || r.body != streamed() || r.endpoint() != "b" {
				t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
			}
			open()
			finish()
			g.idle(t)
		})
	}
}
