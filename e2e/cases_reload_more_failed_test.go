package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// With a stream open and a request waiting, reloads fail over and over: at reading,
// at checking, and when all is well but the port of another site. What they would
// have changed is not changed: the request still waits for its place, the server
// that would have drained serves, the one that would have been added is asked for
// nothing, and nothing stays behind.
func TestReloadsThatFailLeaveNoTrace(t *testing.T) {
	a, added := newBackend(t), newBackend(t)
	asked := countVisits(added)
	good := fmt.Sprintf("llm_proxy %s {\n%s%sendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, patient, a.addr())
	g := start(t, good)
	open := gate(a)
	defer open()
	finish := holdStream(g, chat(true, "", "runs"))
	waiting := g.later(t, chat(true, "", "waits"))
	eventually(t, "the request to wait", func() bool { return g.queued() == 1 })

	taken := listen(t)
	defer taken.Close()
	options := func(line string) string {
		return fmt.Sprintf("llm_proxy %s %s {\n%sstrategy prefix_spill\nqueue 3\n%sendpoint %s {\nname other\ndrain\n}\nendpoint %s {\nname added\n}\n}\n",
			a.addr(), added.addr(), fast, line, a.addr(), added.addr())
	}
	fails := []struct {
		name, site, says string
		port             bool
	}{
		{"an option that is none", options("no_such_option 1\n"), "no_such_option", false},
		{"a value that is none", options("kv_limit full\n"), "kv_limit", false},
		{"options that contradict each other", options("local_zone here\n"), "local_zone", false},
		{"one pool described twice", options("") + "handle /other/* {\nllm_proxy 127.0.0.1:1\n}\n", "pool", false},
		{"another site's port is taken", options(""), "address already in use", true},
		{"the same, without any limit", fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, named(a)), "address already in use", true},
	}
	// once fails to load each of them.
	once := func() {
		for _, f := range fails {
			if err := g.loadBeside(f.site, f.port, taken.Addr().String()); err == nil || !strings.Contains(err.Error(), f.says) {
				t.Errorf("%s: error %v, want one about %s", f.name, err, f.says)
			}
		}
	}
	once() // what is made once has been made
	a.seen()
	goroutines, memory := settled(t), live()
	for range 8 {
		once()
	}
	a.seen()
	if got := settled(t); got > goroutines+10 {
		t.Errorf("%d goroutines after the failures, %d before", got, goroutines)
	}
	if grown := live() - memory; grown > 6<<20 {
		t.Errorf("%d MiB more of memory after the failures", grown>>20)
	}

	pools := g.pools()
	if len(pools) != 1 || len(pools[0].Endpoints) != 1 || pools[0].Strategy != "work" {
		t.Errorf("the admin API shows %s, want the one server of before", shown(pools))
	}
	if row := g.endpoint("a"); row.State != "up" || row.Calls != 1 {
		t.Errorf("the server is %s with %d calls, want up with the stream", row.State, row.Calls)
	}
	if n := g.queued(); n != 1 || a.count() != 1 {
		t.Errorf("%d requests wait and %d are at the server, want one each", n, a.count())
	}
	if showsEndpoint(g, "added") || showsEndpoint(g, "other") {
		t.Error("the metrics have servers of a configuration that never ran")
	}
	before := asked.now()
	for range 5 {
		a.seen()
	}
	if now := asked.now(); shown(now) != shown(before) || now[chatPath] > 0 {
		t.Errorf("the server that was not added is asked for %v, and for %v before", now, before)
	}

	open()
	if r := arrives(t, "the answer to the request that waited", waiting); r.status != http.StatusOK || r.body != streamed() || r.endpoint() != "a" {
		t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
	}
	finish()
	if err := g.load(options("")); err != nil {
		t.Errorf("the same without its mistake: %v", err)
	}
	eventually(t, "the new configuration to serve", func() bool {
		r, err := g.ask(http.DefaultClient, distinct(1))
		return err == nil && r.status == http.StatusOK && r.endpoint() == "added"
	})
	g.idle(t)
}

// loadBeside loads the site, if asked for it with another one whose port is taken.
func (g *gateway) loadBeside(site string, beside bool, port string) error {
	g.t.Helper()
	config, err := g.adapt(site)
	if err != nil {
		return err
	}
	if beside {
		text := strings.Replace(string(config), `"servers":{`, `"servers":{"busy":{"listen":["`+port+`"]},`, 1)
		if text == string(config) {
			g.t.Fatal("the configuration has no servers")
		}
		config = []byte(text)
	}
	g.loads.Add(1)
	return caddy.Load(config, true)
}

// shown is anything as JSON, for messages.
func shown(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
