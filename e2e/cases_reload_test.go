package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A hundred and twenty clients never pause while the way of choosing is changed
// twelve times under them. Every one of their requests is answered, in whole, and
// in the end nothing is left in the books.
func TestChangingTheChoiceUnderFullLoad(t *testing.T) {
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	options := []string{
		"affinity 0.8",
		"strategy weighted\nscorer queue\nscorer prefix 2",
		"affinity 0.6 128\naffinity_key one",
		"strategy weighted\nscorer session\nscorer kv_memory\nscorer token_budget 0.2\nscorer errors",
		"strategy prefix_spill\nindex_bytes 128KiB",
		"strategy weighted\nscorer latency\naffinity_key two",
	}
	site := func(i int) string {
		return fmt.Sprintf("llm_proxy %s %s %s {\n%s%s%s\n}\n", list[0].addr(), list[1].addr(), list[2].addr(),
			fast, named(list...), options[i%len(options)])
	}
	g := start(t, site(0))

	const clients = 120
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var answered atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			for turn := 0; ; turn++ {
				select {
				case <-stop:
					return
				default:
				}
				stream := rand.IntN(2) == 0
				shared := rand.IntN(40)
				r, err := g.ask(client, chat(stream, prose(fmt.Sprint("shared ", shared), 200*(1+shared)), fmt.Sprintf("client %d turn %d", i, turn)))
				if err != nil || r.status != http.StatusOK || stream && r.body != streamed() {
					t.Errorf("status %d, %v: %q", r.status, err, r.body)
					return
				}
				answered.Add(1)
			}
		})
	}
	for i := range 12 {
		before := answered.Load()
		eventually(t, "answers before the next reload", func() bool { return answered.Load() >= before+200 || t.Failed() })
		if err := g.load(site(i + 1)); err != nil {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	close(stop)
	all.Wait()
	g.idle(t)
	reached := int64(0)
	for _, b := range list {
		reached += int64(b.count())
	}
	if reached != answered.Load() {
		t.Errorf("%d requests reached a server, and %d were answered", reached, answered.Load())
	}
	for _, p := range g.pools() {
		for _, e := range p.Endpoints {
			if e.State != "up" || e.ErrorRate > 0.01 {
				t.Errorf("%s is %s with an error rate of %v", e.Name, e.State, e.ErrorRate)
			}
		}
	}
}

// Three servers hold twenty prefixes; one of them is gone, and three streams run
// on another. A reload forgets none of it: where what is cached, that one is
// down, what is in flight, how fast they are and what they serve.
func TestAReloadForgetsNothingOfTheServers(t *testing.T) {
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	a, b, c := list[0], list[1], list[2]
	for _, s := range list {
		s.models = `{"object":"list","data":[{"id":"m","object":"model"},{"id":"other","object":"model"}]}`
		s.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			if strings.Contains(string(body), `"stream":true`) {
				time.Sleep(100 * time.Millisecond) // computing the prompt, which shows how fast the server is
			}
			telling(unsaid)(w, r, body)
		})
	}
	site := func(options string) string {
		return fmt.Sprintf("llm_proxy %s %s %s {\n%s%s%s\n}\n", a.addr(), b.addr(), c.addr(), fast, named(list...), options)
	}
	g := start(t, site(""))

	const prefixes = 20
	body := func(stream bool, prefix int, question string) string {
		return chat(stream, prose(fmt.Sprintf("prefix %d", prefix), 8000), question)
	}
	home := make([]string, prefixes)
	for s := range list {
		onlyFree(list[s], list...)
		for i := s; i < prefixes; i += len(list) {
			r := g.post(body(i < 12, i, "first"))
			if home[i] = r.endpoint(); home[i] != nameOf(s) {
				t.Fatalf("prefix %d went to %q, want %s: status %d, %s", i, home[i], nameOf(s), r.status, r.body)
			}
		}
	}
	allFree(list...)
	c.goDown()
	eventually(t, "the server to be seen as down", func() bool { return g.endpoint("c").State == "down" })

	// Others have as many requests at b as we at a. Were a busier, one request in
	// sixteen would try another server.
	b.set(load{running: 3})
	b.seen()
	open := gate(a)
	defer open()
	var running []func()
	for i := range 3 {
		running = append(running, holdStream(g, body(true, 3*i, "in flight")))
	}
	eventually(t, "three streams with their first tokens", func() bool {
		row := g.endpoint("a")
		return row.Calls == 3 && row.PrefillTokens == 0
	})
	before := rowsOf(g)

	if err := g.load(site("affinity 0.7\nspill_waiting 20")); err != nil {
		t.Fatal(err)
	}
	after := rowsOf(g)
	if n := after["a"].Calls; n != 3 {
		t.Errorf("%d calls are counted at a right after the reload, want 3", n)
	}
	for name, was := range before {
		is := after[name]
		if was.Samples == 0 || was.PrefillSpeed == nil || is.Samples != was.Samples || !reflect.DeepEqual(is.PrefillSpeed, was.PrefillSpeed) {
			t.Errorf("%s: %d samples after the reload, %d before", name, is.Samples, was.Samples)
		}
		if len(was.Models) != 2 || !reflect.DeepEqual(is.Models, was.Models) {
			t.Errorf("%s: serves %q after the reload, %q before", name, is.Models, was.Models)
		}
		if is.State != was.State || is.ErrorRate > was.ErrorRate {
			t.Errorf("%s: %s after the reload, %s before", name, is.State, was.State)
		}
	}
	tried := 0
	for i := range prefixes {
		r := g.post(body(false, i, "after"))
		if r.status != http.StatusOK || r.endpoint() == "c" {
			t.Errorf("prefix %d: status %d from %s", i, r.status, r.endpoint())
		}
		if r.header.Get("X-LLM-Attempts") != "1" {
			tried++
		}
		if home[i] != "c" && (r.endpoint() != home[i] || r.decision() != "warm") {
			t.Errorf("prefix %d is at %s and went to %s (%s)", i, home[i], r.endpoint(), r.decision())
		}
	}
	// A server that is down gets one request as a trial after a second.
	if tried > 1 {
		t.Errorf("%d requests were sent to the server that is down", tried)
	}
	open()
	for _, finish := range running {
		finish()
	}
	g.idle(t)

	c.comeUp()
	eventually(t, "the server to be up again", func() bool { return g.endpoint("c").State == "up" })
	onlyFree(c, list...)
	if r := g.post(distinct(7)); r.endpoint() != "c" {
		t.Errorf("went to %s, want the server that has come back", r.endpoint())
	}
}

// rowsOf returns what the admin API shows of the servers, by name.
func rowsOf(g *gateway) map[string]llmlb.EndpointStatus {
	g.t.Helper()
	rows := map[string]llmlb.EndpointStatus{}
	for _, e := range g.pools()[0].Endpoints {
		rows[e.Name] = e
	}
	return rows
}
