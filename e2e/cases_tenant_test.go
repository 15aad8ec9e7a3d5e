package e2e

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// byKey is a site whose tenants are told apart by a header.
const byKey = "tenant {http.request.header.X-Tenant}\n"

// refusedAs fails the test unless the answer is 429 with the code.
func (r reply) refusedAs(t *testing.T, what, code string) {
	t.Helper()
	if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, `"`+code+`"`) || r.header.Get("Retry-After") == "" {
		t.Errorf("%s: status %d: %s; want 429 %s", what, r.status, r.body, code)
	}
}

// A tenant may have one request open, and tokens for two. While its first runs
// its second is refused, which costs it nothing: its third is served. The fourth
// has no tokens left and takes no place: a small one is served beside it.
func TestARefusedRequestUsesUpNoOtherLimit(t *testing.T) {
	g, a := single(t, 8, byKey+"tenant_limit concurrent 1\ntenant_limit tokens_per_minute 450\n")
	finish := make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if question(body) == "one" && !waits(r, finish) {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		tokens := 200
		if strings.Contains(string(body), `"max_tokens":2,`) {
			tokens = 2
		}
		fmt.Fprintf(w, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`, tokens)
	})
	ask := func(tenant, question string, most int) <-chan reply {
		body := fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":%q}]}`, most, question)
		return g.posts(t, http.DefaultClient, body, "X-Tenant", tenant)
	}
	one := ask("t", "one", 400) // half of which is expected to be used
	a.await("the first request", func() bool { return a.hits == 1 })
	arrives(t, "an answer", ask("t", "two", 400)).refusedAs(t, "the second while the first runs", "tenant_concurrent")
	if r := arrives(t, "an answer", ask("another", "two", 400)); r.status != http.StatusOK {
		t.Errorf("another tenant: status %d: %s", r.status, r.body)
	}
	close(finish)
	allServed(t, []<-chan reply{one})
	g.idle(t)
	if r := arrives(t, "an answer", ask("t", "three", 400)); r.status != http.StatusOK {
		t.Errorf("the third: status %d: %s; want it served, as the refused one has used nothing", r.status, r.body)
	}
	g.idle(t)
	arrives(t, "an answer", ask("t", "four", 400)).refusedAs(t, "the fourth", "tenant_tokens")
	if r := arrives(t, "an answer", ask("t", "five", 2)); r.status != http.StatusOK {
		t.Errorf("a small one after it: status %d: %s", r.status, r.body)
	}
	if n := a.count(); n != 4 {
		t.Errorf("the server got %d requests, want the 4 that were let in", n)
	}
}

// One tenant has twenty requests waiting when another comes with five. Those are
// done before the twelfth of the first, however long its line is. Before that,
// and after it, the first has the server for itself, without a pause.
func TestATenantDoesNotWaitBehindAnothersBacklog(t *testing.T) {
	g, a := single(t, 1, byKey)
	s := stepping(t, a)
	list := []<-chan reply{g.asks(t, http.DefaultClient, "x first", "X-Tenant", "x")}
	s.arrived()
	list = append(list, g.queues(t, http.DefaultClient, numbered("x", 20), "X-Tenant", "x")...)
	order := s.serve(2)
	list = append(list, g.queues(t, http.DefaultClient, numbered("y", 5), "X-Tenant", "y")...)
	order = append(order, s.serve(23)...) // each comes when the one before has been answered
	s.answer()
	allServed(t, list)
	if !slices.Equal(order[:2], []string{"x 0", "x 1"}) {
		t.Errorf("alone it was served %v", order[:2])
	}
	var of [2][]string
	before := 0 // requests of x that were served when y's last was
	for _, q := range order {
		which := 0
		if strings.HasPrefix(q, "y") {
			which, before = 1, len(of[0])
		}
		of[which] = append(of[which], q)
	}
	if !slices.Equal(of[0], numbered("x", 20)) || !slices.Equal(of[1], numbered("y", 5)) {
		t.Errorf("a tenant's own order was not kept: %v", order)
	}
	if before > 12 {
		t.Errorf("%d requests of the tenant with the backlog were served before the other's five, want 12 at most: %v", before, order)
	}
}

// A client that lists headers in its Connection header has a proxy drop them. Who
// is counted, and in which class, has been read before: the limit applies, and
// the class that was given is kept. The operator's own key reaches the server, and
// a client's key that is dropped so gets it nothing.
func TestHeadersNamedInConnectionStillCount(t *testing.T) {
	log := newJournal(t)
	a := newBackend(t)
	site := log.directive() + singleSite(a, 8, byKey+"tenant_limit concurrent 1\ntenant_limit weight 1 acme\nclass gold {\nheader X-Priority gold\n}\nclass others {\n}\nheader_up X-Engine-Key operator\n")
	g := start(t, site)
	g.configured(t, site, func(config map[string]any) { // which a site cannot say
		for _, server := range config["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any) {
			server.(map[string]any)["trusted_proxies"] = map[string]any{"source": "static", "ranges": []string{"127.0.0.1/32"}}
		}
	})
	heads := make(chan http.Header, 8)
	finish := make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		heads <- r.Header.Clone()
		if question(body) != "runs" || waits(r, finish) {
			answer(w, r, body)
		}
	})
	runs := g.asks(t, http.DefaultClient, "runs", "X-Tenant", "acme")
	arrives(t, "the first request", heads)

	raw := func(fields ...string) reply {
		body := chat(false, "", "raw")
		c := g.dial(t)
		io.WriteString(c, g.head("POST", chatPath, append(fields, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body)))...)+body)
		return answerOn(t, c)
	}
	raw("X-Tenant: acme", "X-Priority: gold", "Connection: close, X-Tenant, X-Priority").refusedAs(t, "the tenant's second request", "tenant_concurrent")
	raw("X-Tenant: acme", "Connection: x-tenant").refusedAs(t, "in other letters", "tenant_concurrent")
	for _, connection := range []string{"close, X-Tenant, X-Priority", "close, Authorization", "close, X-Engine-Key"} {
		r := raw("X-Tenant: other", "X-Priority: gold", "Authorization: Bearer client", "X-Engine-Key: client", "Connection: "+connection)
		if r.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", connection, r.status, r.body)
			continue
		}
		h := arrives(t, "the request", heads)
		if got := h.Values("X-Engine-Key"); !slices.Equal(got, []string{"operator"}) {
			t.Errorf("%s: the server got the keys %q, want the operator's alone", connection, got)
		}
		if strings.Contains(connection, "Authorization") && h.Get("Authorization") != "" {
			t.Errorf("%s: the server got %q", connection, h.Get("Authorization"))
		}
	}
	close(finish)
	allServed(t, []<-chan reply{runs})
	gold := 0
	for _, e := range log.entries(t, 6) {
		if e["llm_class"] == "gold" {
			gold++
		}
	}
	if gold != 4 {
		t.Errorf("%d requests are logged in the class that they named, want 4", gold)
	}
}
