package health

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Two blocks may describe one pool if they agree; if not, the error names both
// places and what to do.
func TestPoolDescribedTwice(t *testing.T) {
	c := newConfig(t, nil)
	defer c.end(t)
	asked := c.Handle(t.Name()) // an admission handler may come first
	if asked.Settings() != nil || asked.Pool() != nil {
		t.Error("a handle knows settings before anybody registered them")
	}
	h := c.watch(t, settings(t, nil, "a:1"))
	if h != asked || c.Handle(t.Name()) != h {
		t.Error("one pool has several handles")
	}
	if again := c.watch(t, settings(t, nil, "a:1")); again != h {
		t.Error("equal settings did not share the pool")
	}
	other := settings(t, nil, "b:1")
	other.Where = "Caddyfile:9"
	_, err := c.Watch(other)
	if err == nil {
		t.Fatal("different settings for one pool were taken")
	}
	for _, part := range []string{t.Name(), "Caddyfile:1", "Caddyfile:9"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not name %s", err, part)
		}
	}

	first, second := settings(t, nil, "a:1"), settings(t, nil, "b:1")
	first.Pool, second.Pool = "", llmlb.DefaultPool
	c.watch(t, first)
	if c.Handle("") != c.Handle(llmlb.DefaultPool) {
		t.Error("no name and the default name are different pools")
	}
	if _, err := c.Watch(second); err == nil || !strings.Contains(err.Error(), "a name of their own, set with 'pool'") {
		t.Errorf("two unnamed blocks: %v; want to be told to name them", err)
	}
}

// A handler in front of a pool that no policy describes is a mistake that
// loading reports, before anything has changed.
func TestPoolWithoutPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(1, 0, 0)))
		running := newConfig(t, nil)
		h := running.watch(t, settings(t, net, "a:1"))
		running.start(t)
		defer running.end(t)

		next := newConfig(t, nil)
		s := settings(t, net, "a:1")
		s.Scrape.Interval = 100 * time.Millisecond
		next.watch(t, s)
		next.Handle("gpu")
		err := next.Start()
		if err == nil || !strings.Contains(err.Error(), `"gpu"`) || !strings.Contains(err.Error(), t.Name()) {
			t.Errorf("starting: %v; want the pool that is missing and those there are", err)
		}
		next.end(t)
		if h.Pool().Current() != h.Settings() {
			t.Error("the configuration that failed to start is current")
		}
		from := time.Now()
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", from); n != 10 {
			t.Errorf("%d scrapes in 10 s after the failed reload, want 10", n)
		}
	})
}

// Settings that cannot be bound leave nothing behind, and neither does a
// configuration that was only validated.
func TestCleanupGivesBackWhatWasTaken(t *testing.T) {
	alive := func() bool {
		found := false
		llmlb.Pools(func(p *llmlb.Pool) { found = found || strings.HasPrefix(p.Name(), t.Name()) })
		return found
	}
	c := newConfig(t, nil)
	if _, err := c.Watch(settings(t, nil, "a:1", "a:1")); err == nil {
		t.Error("an upstream listed twice was taken")
	}
	bad := settings(t, nil, "a:1")
	bad.Scrape.Engine = "vlm"
	if _, err := c.Watch(bad); err == nil || !strings.Contains(err.Error(), "Caddyfile:1") {
		t.Errorf("unknown engine: %v; want the place named", err)
	}
	if alive() {
		t.Error("refused settings keep a pool")
	}
	c.watch(t, settings(t, nil, "a:1"))
	if !alive() {
		t.Error("a watched pool does not live")
	}
	for range 2 { // Caddy cleans up once more when loading failed
		if err := c.Cleanup(); err != nil {
			t.Fatal(err)
		}
	}
	if alive() {
		t.Error("the pool lives after cleanup")
	}
}

// A configuration that stops hands the pool back to the newest one running.
func TestStopHandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(1, 0, 0)))
		core, logs := recorded()
		old := newConfig(t, core)
		h := old.watch(t, settings(t, net, "a:1"))
		old.start(t)
		next := newConfig(t, nil)
		s := settings(t, net, "a:1")
		s.Scrape.Interval = 100 * time.Millisecond
		next.watch(t, s)
		next.start(t)
		next.end(t) // another app failed to start, say
		if h.Pool().Current() != h.Settings() {
			t.Fatal("the old configuration is not current again")
		}
		from := time.Now()
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", from); n < 9 || n > 11 {
			t.Errorf("%d scrapes in 10 s, want 10 as the old configuration says", n)
		}
		net.set("a:1", servesStatus(500))
		time.Sleep(2 * time.Second)
		if n := count(lines(logs), "scrape failed"); n != 1 {
			t.Errorf("the old configuration's log has %d lines on the failure, want 1", n)
		}
		old.end(t)
	})
}

// Neither the token nor anything the server sent gets into the log or into
// what the admin API shows.
func TestNothingSecretIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const secret = "SECRET124"
		net := newServers()
		seen := ""
		net.set("a:1", func(req *http.Request) (*http.Response, error) {
			seen = req.Header.Get("Authorization")
			res, err := servesAs("text/"+secret, secret)(req)
			res.StatusCode, res.Status = 401, "401 "+secret
			return res, err
		})
		net.set("b:1", servesAs("text/html", "<b>"+secret))
		net.set("c:1", fails(caddy.APIError{Message: "dial " + secret}))
		net.set("d:1", serves(secret+" <b>\nvllm:num_requests_waiting{x=\""+secret+"\"} NaN\n"))
		core, logs := recorded()
		c := newConfig(t, core)
		s := settings(t, net, "a:1", "b:1", "c:1", "d:1")
		s.Scrape.Bearer = secret
		h := c.watch(t, s)
		c.start(t)
		time.Sleep(10 * time.Second)
		shown := poolsJSON(t)
		text := strings.Join(lines(logs), "\n") + shown + h.Settings().Where
		c.end(t)
		if seen != "Bearer "+secret {
			t.Errorf("the server got authorization %q", seen)
		}
		if strings.Contains(text, secret) || strings.Contains(text, "<") {
			t.Errorf("log or API show what they must not:\n%s", text)
		}
		if count(lines(logs), "scrape failed") != 4 {
			t.Errorf("log: %q; want one line for each of four servers", lines(logs))
		}
	})
}

// Caddy finds both modules by their IDs.
func TestModulesAreRegistered(t *testing.T) {
	for _, id := range []string{"llmlb", "admin.api.llmlb"} {
		if _, err := caddy.GetModule(id); err != nil {
			t.Errorf("module %s: %v", id, err)
		}
	}
}
