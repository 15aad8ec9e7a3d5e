package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func init() { caddy.RegisterModule(new(hearer)) }

// hearer is an event handler as an operator would add one. It tells the test of
// every event, under the name that its configuration gives it.
type hearer struct {
	Name string `json:"name"`

	ctx caddy.Context
}

// news is an event, as a hearer got it.
type news struct {
	by    string
	event caddy.Event
	dead  bool // the handler's configuration was over
}

// hearing is what hearers do with events.
var hearing struct {
	sync.Mutex
	does func(ctx context.Context, h news)
}

func (*hearer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "events.handlers.e2e_hearer", New: func() caddy.Module { return new(hearer) }}
}

func (h *hearer) Provision(ctx caddy.Context) error {
	h.ctx = ctx
	return nil
}

func (h *hearer) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next()
	if !d.Args(&h.Name) {
		return d.ArgErr()
	}
	return nil
}

func (h *hearer) Handle(ctx context.Context, e caddy.Event) error {
	hearing.Lock()
	does := hearing.does
	hearing.Unlock()
	if does != nil {
		does(ctx, news{by: h.Name, event: e, dead: h.ctx.Err() != nil})
	}
	return nil
}

// handles has hearers do that until the test ends.
func handles(t *testing.T, does func(ctx context.Context, h news)) {
	t.Helper()
	set := func(f func(context.Context, news)) {
		hearing.Lock()
		hearing.does = f
		hearing.Unlock()
	}
	set(does)
	t.Cleanup(func() { set(nil) })
}

// startHeard is start with a hearer of that name.
func startHeard(t *testing.T, name, site string) *gateway {
	t.Helper()
	g := &gateway{t: t, global: hearerOf(name)}
	g.run(site, func() string { return "http://" + freeAddr(t) })
	return g
}

func hearerOf(name string) string {
	return fmt.Sprintf("events {\non llmlb.state e2e_hearer %s\n}\n", name)
}

// An operator's own handler is told when a server goes down and when it comes back:
// which one, why, and when. After a reload it is the new configuration's handler,
// and never one whose configuration is over.
func TestEventsTellOfStates(t *testing.T) {
	told := make(chan news, 100)
	handles(t, func(_ context.Context, h news) { told <- h })
	a, b := newBackend(t), newBackend(t)
	site := fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b))
	g := startHeard(t, "first", site)
	a.seen()

	next := func(by, to string) map[string]any {
		t.Helper()
		for {
			h := arrives(t, "the event that a is "+to, told)
			if h.dead {
				t.Errorf("a handler of a configuration that is over was told: %v", h.event.Data)
			}
			if h.event.Data["endpoint"] == "a" && h.event.Data["to"] == to {
				if h.by != by {
					t.Errorf("%q was told, want the handler of the newest configuration, %q", h.by, by)
				}
				if h.event.Name() != "llmlb.state" || string(h.event.Origin().CaddyModule().ID) != "llmlb" {
					t.Errorf("event %q of %v", h.event.Name(), h.event.Origin())
				}
				return h.event.Data
			}
		}
	}
	before := time.Now()
	a.goDown()
	data := next("first", "down")
	at, err := time.Parse(time.RFC3339Nano, fmt.Sprint(data["at"]))
	if err != nil || at.Before(before.Add(-time.Second)) || at.After(time.Now().Add(time.Second)) {
		t.Errorf("it went down at %v, %v", data["at"], err)
	}
	if data["pool"] != "default" || data["address"] != a.addr() || data["from"] != "up" || data["reason"] == "" {
		t.Errorf("told %v", data)
	}
	a.comeUp()
	next("first", "up")

	g.global = hearerOf("second")
	if err := g.load(site + "# changed\nheader X-Changed yes\n"); err != nil {
		t.Fatal(err)
	}
	a.goDown()
	next("second", "down")
	if n := g.counter("caddy_llmlb_state_changes_total", "endpoint", "a", "to", "down"); n != 2 {
		t.Errorf("%v times down by the metrics, want 2", n)
	}
	if n := g.counter("caddy_llmlb_events_dropped_total"); n != 0 {
		t.Errorf("%v events were dropped", n)
	}
}

// A handler that hangs holds nothing up: requests are served, states change, and a
// new configuration takes over and has its own handler told.
func TestAHandlerThatHangs(t *testing.T) {
	stuck, told := make(chan context.Context, 1), make(chan news, 100)
	over := make(chan struct{})
	defer close(over)
	handles(t, func(ctx context.Context, h news) {
		if h.by == "second" {
			told <- h
			return
		}
		select {
		case stuck <- ctx:
		default:
		}
		<-over // and does not look at its context
	})
	a, b := newBackend(t), newBackend(t)
	site := fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b))
	g := startHeard(t, "first", site)
	a.seen()
	a.goDown()
	ctx := arrives(t, "the handler to be called", stuck)
	if r := g.post(chat(false, "", "hi")); r.status != http.StatusOK || r.endpoint() != "b" {
		t.Errorf("status %d from %q while a handler hangs", r.status, r.endpoint())
	}
	a.comeUp()
	eventually(t, "the server to be up", func() bool { return g.endpoint("a").State == "up" })

	g.global = hearerOf("second")
	began := time.Now()
	if err := g.load(site + "header X-Changed yes\n"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the reload took %v", took)
	}
	if ctx.Err() == nil {
		t.Error("the handler's context goes on though its configuration is over")
	}
	a.goDown()
	if h := arrives(t, "the new handler to be told", told); h.event.Data["endpoint"] != "a" {
		t.Errorf("told %v", h.event.Data)
	}
	if n := g.counter("caddy_llmlb_events_dropped_total"); n < 1 {
		t.Errorf("%v events were dropped, want the one behind the handler that hangs", n)
	}
}

// A handler that breaks takes nothing with it.
func TestAHandlerThatPanics(t *testing.T) {
	called := make(chan struct{}, 100)
	handles(t, func(context.Context, news) {
		called <- struct{}{}
		panic("broken")
	})
	a, b := newBackend(t), newBackend(t)
	g := startHeard(t, "first", fmt.Sprintf("log {\noutput discard\n}\nllm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
	a.seen()
	a.goDown()
	arrives(t, "the handler to be called", called)
	a.comeUp()
	arrives(t, "the handler to be called again", called)
	res, err := http.Get(g.url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
}
