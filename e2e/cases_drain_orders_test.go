package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// order sends an order for an endpoint of the pool "default" to the admin API, as
// scripts do, and returns the row that it answers with.
func (g *gateway) order(method, endpoint, what string) (row llmlb.EndpointStatus) {
	g.t.Helper()
	r := g.told(method, "/llmlb/pools/default/endpoints/"+url.PathEscape(endpoint)+what, "", nil)
	if r.status != http.StatusOK {
		g.t.Fatalf("%s %s of %s: %d %s", method, what, endpoint, r.status, r.body)
	}
	if err := json.Unmarshal([]byte(r.body), &row); err != nil {
		g.t.Fatal(err)
	}
	return row
}

// told sends anything to the admin API. Like fromAdmin it tries again where a reload
// has put another server there.
func (g *gateway) told(method, path, body string, header http.Header) reply {
	g.t.Helper()
	for tries := 1; ; tries++ {
		req, err := http.NewRequest(method, "http://"+g.admin+path, strings.NewReader(body))
		if err != nil {
			g.t.Fatal(err)
		}
		maps.Copy(req.Header, header)
		if host := header.Get("Host"); host != "" {
			req.Host = host
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			return read(g.t, res)
		}
		if tries == 3 {
			g.t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// An operator drains a server on which a conversation is warm and a stream runs. The
// stream comes whole, the conversation and all that is new go to the other one, and
// the server is drained only when its engine too says that nothing runs there. After
// the resume it serves again.
func TestAnOrderToDrainAServer(t *testing.T) {
	g, a, b := pair(t, "warm_up off\n")
	preamble := prose("a long conversation", 8000)
	onlyFree(a, a, b)
	if r := g.post(chat(true, preamble, "first")); r.endpoint() != "a" {
		t.Fatalf("the conversation went to %s", r.endpoint())
	}
	allFree(a, b)
	openA := gate(a)
	defer openA()
	onlyFree(a, a, b)
	finish := holdStream(g, chat(true, "", "runs"))
	allFree(a, b)
	a.set(load{running: 1})
	a.seen()

	if row := g.order(http.MethodPost, "a", "/drain"); row.State != "draining" || row.Reason != "1 open here" || row.Drain == nil || row.Drain.Open != 1 {
		t.Errorf("it is %s (%s), %+v", row.State, row.Reason, row.Drain)
	}
	hits := a.count()
	for i := range 10 {
		if r := g.post(chat(true, preamble, fmt.Sprint("follow-up ", i))); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("a follow-up: status %d from %q", r.status, r.endpoint())
		}
		if r := g.post(distinct(i)); r.endpoint() != "b" {
			t.Errorf("something new went to %q", r.endpoint())
		}
	}
	if n := a.count() - hits; n != 0 {
		t.Errorf("%d requests reached the server that drains", n)
	}
	openA()
	finish()
	eventually(t, "the stream to be counted as over", func() bool { return g.endpoint("a").Drain.Open == 0 })
	if row := g.endpoint("a"); row.State != "draining" {
		t.Errorf("it is %s while its engine says that something runs", row.State)
	}
	a.set(load{})
	a.seen()
	if row := g.endpoint("a"); row.State != "drained" || row.Reason != "" {
		t.Errorf("it is %s (%s) with nothing left", row.State, row.Reason)
	}

	if row := g.order(http.MethodDelete, "a", "/drain"); row.Drain != nil {
		t.Errorf("after the resume it is %s, %+v", row.State, row.Drain)
	}
	eventually(t, "the server to pass a check", func() bool { return g.endpoint("a").State == "up" })
	served := map[string]int{}
	for i := range 40 {
		served[g.post(distinct(100+i)).endpoint()]++
	}
	if served["a"] == 0 {
		t.Errorf("served %v after the resume", served)
	}
}

// A request waits for the busy server that holds its prefix, though another one is
// free. When the server it waits for is drained, the other one serves it at once.
func TestARequestThatWaitsForAServerThatDrains(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%s}\n", a.addr(), b.addr(), fast, patient, named(a, b)))
	// Fifty thousand tokens a second, and long prompts take longer, as they do.
	computing := func(w http.ResponseWriter, r *http.Request, body []byte) {
		time.Sleep(time.Duration(llmlb.Work{Uncached: len(body) / 4}.Effort()) * 20 * time.Microsecond)
		answer(w, r, body)
	}
	a.answers(computing)
	b.answers(computing)
	prefix := prose("a long document", 320_000)
	onlyFree(b, a, b)
	for i := range 4 {
		g.post(chat(true, "", prose(fmt.Sprint("what b is like ", i), 20_000)))
	}
	onlyFree(a, a, b)
	for i := range 4 {
		g.post(chat(true, "", prose(fmt.Sprint("what a is like ", i), 20_000)))
	}
	if r := g.post(chat(true, prefix, "first")); r.endpoint() != "a" {
		t.Fatalf("the document went to %s", r.endpoint())
	}
	open := sync.OnceFunc(silent(a))
	defer open()
	busy := g.later(t, chat(true, "", prose("something else", 240_000)))
	a.await("the other request", func() bool { return a.open == 1 })
	allFree(a, b)
	waiting := g.later(t, chat(true, prefix, "second"))
	eventually(t, "the request to wait", func() bool { return g.queued() == 1 })

	b.answers(answer)
	began := time.Now()
	g.order(http.MethodPost, "a", "/drain")
	r := arrives(t, "the answer to the request that waited", waiting)
	if r.status != http.StatusOK || r.body != streamed() || r.endpoint() != "b" {
		t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("served %v after the order", took)
	}
	open()
	if r := arrives(t, "the other answer", busy); r.status != http.StatusOK || r.endpoint() != "a" {
		t.Errorf("what ran on the server: status %d from %q", r.status, r.endpoint())
	}
}

// An order stands over reloads, also those that come while streams run there. What
// the configuration says is another matter: neither ends the other. Taken out of
// the configuration, the server finishes its streams and is forgotten; named again
// it is as good as new.
func TestAnOrderToDrainOutlivesReloads(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	site := func(i int, drain string) string {
		return fmt.Sprintf("llm_proxy %s %s {\n%saffinity 0.%d\nendpoint %s {\nname a\n%s}\nendpoint %s {\nname b\n}\n}\n",
			a.addr(), b.addr(), fast, 5+i%4, a.addr(), drain, b.addr())
	}
	g := start(t, site(0, ""))
	openA := gate(a)
	defer openA()
	onlyFree(a, a, b)
	finish := holdStream(g, chat(true, "", "runs over all of this"))
	allFree(a, b)
	g.order(http.MethodPost, "a", "/drain?limit=1h")
	until := g.endpoint("a").Drain.Until
	onlyB := func(when string) {
		t.Helper()
		for i := range 4 {
			if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
				t.Errorf("%s: status %d from %q", when, r.status, r.endpoint())
			}
		}
	}
	reload := func(site string) {
		t.Helper()
		if err := g.load(site); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		reload(site(i+1, ""))
		row := g.endpoint("a")
		if row.State != "draining" || row.Drain.Open != 1 || !row.Drain.Until.Equal(until) {
			t.Fatalf("after reload %d it is %s, %+v", i, row.State, row.Drain)
		}
		onlyB("after a reload")
	}

	reload(site(0, "drain\n"))
	if r := g.told(http.MethodDelete, "/llmlb/pools/default/endpoints/a/drain", "", nil); r.status != http.StatusConflict || !strings.Contains(r.body, "the configuration drains it") {
		t.Errorf("resumed against the configuration: %d %s", r.status, r.body)
	}
	onlyB("while the configuration drains it")
	g.order(http.MethodPost, "a", "/drain")
	reload(site(0, ""))
	if row := g.endpoint("a"); row.State != "draining" || row.Drain.By != "order" {
		t.Errorf("with the order alone it is %s, %+v", row.State, row.Drain)
	}
	onlyB("with the order alone")

	reload(fmt.Sprintf("llm_proxy %s {\n%sendpoint %s {\nname b\n}\n}\n", b.addr(), fast, b.addr()))
	if row := g.endpoint("a"); row.State != "draining" || row.Drain.Open != 1 {
		t.Errorf("taken out of the configuration it is %s, %+v", row.State, row.Drain)
	}
	openA()
	finish()
	eventually(t, "the server to be forgotten", func() bool { return len(g.pools()[0].Endpoints) == 1 })
	if r := g.told(http.MethodGet, "/llmlb/pools/default/endpoints/a", "", nil); r.status != http.StatusNotFound {
		t.Errorf("asked for it: %d %s", r.status, r.body)
	}
	reload(site(0, ""))
	if row := g.endpoint("a"); row.State != "up" || row.Drain != nil {
		t.Errorf("named again it is %s, %+v", row.State, row.Drain)
	}
	onlyFree(a, a, b)
	if r := g.post(distinct(9)); r.endpoint() != "a" {
		t.Errorf("named again it gets nothing: %q answered", r.endpoint())
	}
}

// When the limit is over, what is left is told and goes on.
func TestADrainOverItsLimit(t *testing.T) {
	g, a, b := pair(t, "")
	openA := gate(a)
	defer openA()
	onlyFree(a, a, b)
	finish := holdStream(g, chat(true, "", "runs"))
	allFree(a, b)
	if row := g.order(http.MethodPost, "a", "/drain?limit=500ms"); !strings.Contains(row.Reason, "1 open here; limit in ") {
		t.Errorf("reason %q", row.Reason)
	}
	eventually(t, "the limit to be over", func() bool { return g.endpoint("a").Drain.Overdue })
	if row := g.endpoint("a"); row.State != "draining" || row.Reason != "limit of 500ms is over; 1 open here" {
		t.Errorf("it is %s, %s", row.State, row.Reason)
	}
	openA()
	finish()
	eventually(t, "the server to be drained", func() bool { return g.endpoint("a").State == "drained" })
}

// With a cut, what is left ends when the limit is over: a request that has shown no
// token is served by another server, a stream breaks off so that its client sees it,
// and neither is held against the server.
func TestADrainThatCuts(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%swarm_up off\ncircuit {\nfailures 1\n}\n%s}\n", a.addr(), b.addr(), fast, patient, named(a, b)))
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if strings.Contains(string(body), "streams") {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, answerEvents[0])
			send(w, answerEvents[1])
		}
		<-r.Context().Done()
	})
	onlyFree(a, a, b)
	res, err := http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(chat(true, "", "streams")))
	if err != nil {
		t.Fatal(err)
	}
	silentOnes := []<-chan reply{g.later(t, chat(true, "", "silent")), g.later(t, chat(false, "", "comes whole"))}
	a.await("three requests", func() bool { return a.open == 3 })
	allFree(a, b)

	began := time.Now()
	g.order(http.MethodPost, "a", "/drain?cut=true&limit=500ms")
	for _, done := range silentOnes {
		if r := arrives(t, "the answer of another server", done); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
		}
	}
	text, err := io.ReadAll(res.Body)
	res.Body.Close()
	if err == nil || !strings.Contains(string(text), "one") || strings.Contains(string(text), "[DONE]") {
		t.Errorf("the stream ended with %v after %q", err, text)
	}
	if took := time.Since(began); took < 500*time.Millisecond || took > 5*time.Second {
		t.Errorf("cut after %v", took)
	}
	eventually(t, "the server to be drained", func() bool { return g.endpoint("a").State == "drained" })
	if a.await("all three to have been told", func() bool { return a.open == 0 }); g.attempts("a")["truncated"] != 1 {
		t.Errorf("attempts at the server ended so: %v", g.attempts("a"))
	}
	a.answers(answer)
	if row := g.order(http.MethodDelete, "a", "/drain"); row.Circuit != "closed" {
		t.Errorf("after the resume it is %s, its circuit %s", row.State, row.Circuit)
	}
	eventually(t, "the server to pass a check", func() bool { return g.endpoint("a").State == "up" })
	g.idle(t)
}

// Every server is drained by order. Those who wait and those who come are told so,
// with 503 and not 429, when their time for waiting is over, and nothing stays
// behind; a resume while they wait has them served.
func TestEveryServerIsDrainedByOrder(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%squeue 50 {\nmax_wait 500ms\n}\n%s}\n", a.addr(), b.addr(), fast, named(a, b)))
	for i := range 4 { // of what a gateway has that is at work
		g.post(distinct(50 + i))
	}
	for _, name := range []string{"a", "b"} {
		g.order(http.MethodPost, name, "/drain")
	}
	eventually(t, "both to be drained", func() bool { return g.endpoint("a").State == "drained" && g.endpoint("b").State == "drained" })
	nobodyServes(t, g, a, b)
}

// While every server drains a request waits; a resume has it served at once.
func TestAResumeServesThoseWhoWait(t *testing.T) {
	g, a, b := pair(t, "queue 50 {\nmax_wait 20s\n}\n")
	g.order(http.MethodPost, "a", "/drain")
	g.order(http.MethodPost, b.addr(), "/drain")
	waiting := g.later(t, distinct(1))
	eventually(t, "the request to wait", func() bool { return g.queued() == 1 })
	began := time.Now()
	g.order(http.MethodDelete, a.addr(), "/drain")
	if r := arrives(t, "the answer", waiting); r.status != http.StatusOK || r.endpoint() != "a" {
		t.Errorf("status %d from %q", r.status, r.endpoint())
	}
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("served %v after the resume", took)
	}
}

// Upstreams that are asked for at every request are drained like others.
func TestAnOrderToDrainADynamicUpstream(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	var sources strings.Builder
	for _, x := range []*backend{a, b} {
		_, port, _ := strings.Cut(x.addr(), ":")
		fmt.Fprintf(&sources, "a 127.0.0.1 %s\n", port)
	}
	site := func(i int) string {
		return fmt.Sprintf("llm_proxy {\ndynamic multi {\n%s}\n%saffinity 0.%d\n}\n", sources.String(), fast, 7+i)
	}
	g := start(t, site(0))
	openA := gate(a)
	defer openA()
	var finish []func()
	for i := 0; a.count() == 0 && i < 50; i++ {
		finish = append(finish, holdStream(g, chat(true, "", prose(fmt.Sprint("stream ", i), 300))))
	}
	g.order(http.MethodPost, a.addr(), "/drain")
	hits := a.count()
	for i := range 2 {
		for j := range 10 {
			if r := g.post(distinct(10*i + j)); r.status != http.StatusOK {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		}
		if err := g.load(site(i + 1)); err != nil {
			t.Fatal(err)
		}
	}
	if n := a.count() - hits; n != 0 {
		t.Errorf("%d requests reached the server that drains", n)
	}
	openA()
	for _, f := range finish {
		f()
	}
	name := llmlb.DefaultName("default", a.addr())
	eventually(t, "the server to be drained", func() bool { return g.endpoint(name).State == "drained" })
	g.order(http.MethodDelete, name, "/drain")
	eventually(t, "the server to serve again", func() bool {
		g.post(distinct(a.count() + b.count()))
		return a.count() > hits
	})
}

// An operator ends an open circuit, and the next request shows whether it was right.
func TestAResetClosesACircuit(t *testing.T) {
	g, a := alone(t, "retries 0\ncircuit {\nfailures 2\nopen_for 1h\n}\nqueue {\nmax_wait 0\n}\n")
	a.answers(status(http.StatusInternalServerError, "", "boom"))
	for i := range 3 {
		g.post(distinct(i))
	}
	name := g.pools()[0].Endpoints[0].Name
	if row := g.endpoint(name); row.State != "down" || row.Circuit != "open" {
		t.Fatalf("it is %s, its circuit %s", row.State, row.Circuit)
	}
	a.answers(answer)
	if r := g.post(distinct(3)); r.status != http.StatusServiceUnavailable {
		t.Errorf("status %d with an open circuit", r.status)
	}
	if row := g.order(http.MethodPost, name, "/reset"); row.State != "up" || row.Circuit != "closed" {
		t.Errorf("after the reset it is %s, its circuit %s", row.State, row.Circuit)
	}
	if r := g.post(distinct(4)); r.status != http.StatusOK {
		t.Errorf("status %d after the reset", r.status)
	}
}

// The policy alone, in somebody's own reverse_proxy, keeps to an order as well, and
// with "transport llm" beside it to a cut.
func TestAnOrderToDrainUnderThePolicyAlone(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("reverse_proxy %s %s {\nlb_policy llm {\n%s%s}\nlb_retries 2\ntransport llm {\n%s}\n}\n", a.addr(), b.addr(), fast, named(a, b), patient))
	openA := sync.OnceFunc(silent(a))
	defer openA()
	onlyFree(a, a, b)
	waiting := g.later(t, chat(true, "", "shows no token"))
	a.await("the request", func() bool { return a.open == 1 })
	allFree(a, b)
	g.order(http.MethodPost, "a", "/drain")
	for i := range 5 {
		if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
			t.Errorf("status %d from %q", r.status, r.endpoint())
		}
	}
	g.order(http.MethodPost, "a", "/drain?cut=true")
	if r := arrives(t, "the answer of the other server", waiting); r.status != http.StatusOK || r.endpoint() != "b" {
		t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	eventually(t, "the server to be drained", func() bool { return g.endpoint("a").State == "drained" })
}
