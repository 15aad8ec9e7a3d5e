package health

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// generating serves a page whose counters grow with what others have generated
// there, by the scrape.
func generating(models ...string) func(*http.Request) (*http.Response, error) {
	var tokens atomic.Int64
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != modelsPath {
			tokens.Add(40)
		}
		return listing(counting(tokens.Load()), models...)(r)
	}
}

func counting(tokens int64) string {
	return load(3, 0, 0.2) + fmt.Sprintf("vllm:generation_tokens_total{model_name=\"m\"} %d\n", tokens)
}

// upWithin waits until the endpoint at a:1 is up, and says how long that took.
func upWithin(t *testing.T, h *llmlb.Handle, most time.Duration) time.Duration {
	t.Helper()
	began := time.Now()
	for row(t, h, "a:1").State != "up" {
		if time.Since(began) > most {
			t.Fatalf("after %v the row is %+v, want up", most, row(t, h, "a:1"))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return time.Since(began)
}

// A second gateway keeps a server busy, which has no health page. With initial
// must_pass only a canary brings it into use here, and gets its turn.
func TestMustPassBesideAnotherGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", generating("m"))
		net.isReady("a:1", servesStatus(http.StatusNotFound))
		net.chat("a:1", sends(50*time.Millisecond, "OK"))
		s := with(settings(t, net, "a:1"), llmlb.Canary{Interval: 30 * time.Second})
		s.Checks.MustPass = true
		h := run(t, s)
		upWithin(t, h, 10*time.Second)
		n := net.tried("a:1")
		time.Sleep(10 * time.Minute)
		if more := net.tried("a:1") - n; more > 0 {
			t.Errorf("%d canaries to a server in use that generates for others", more)
		}
	})
}

// trickle is a stream of a token a second that has no end.
func trickle(tokens *atomic.Int64) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: http.StatusOK, ContentLength: -1,
			Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: &trickling{request: r, tokens: tokens},
		}, nil
	}
}

type trickling struct {
	request *http.Request
	tokens  *atomic.Int64
}

func (b *trickling) Read(p []byte) (int, error) {
	select {
	case <-time.After(time.Second):
		b.tokens.Add(1)
		return copy(p, "data: "+content("a")+"\n\n"), nil
	case <-b.request.Context().Done():
		return 0, b.request.Context().Err()
	}
}

func (*trickling) Close() error { return nil }

// An engine that has become so slow that canaries do not end is out as fast as one
// that is stuck: that they have counted up its tokens themselves is no excuse. What
// others get there meanwhile is none of theirs.
func TestNoCanaryExcusesItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var tokens atomic.Int64
		net.set("a:1", func(r *http.Request) (*http.Response, error) { return listing(counting(tokens.Load()), "m")(r) })
		net.isReady("a:1", servesStatus(http.StatusOK))
		net.chat("a:1", trickle(&tokens))
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 30 * time.Second, MaxTokens: 16}))
		time.Sleep(time.Minute)
		if r := row(t, h, "a:1"); r.State != "down" || r.Reason != "canary: no end within 10s" {
			t.Errorf("row is %+v after %d canaries without an end, want down", r, net.tried("a:1"))
		}
	})
}

// Own streams that go on are a sign of life beside a canary that is slow.
func TestSlowCanaryBesideOwnStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var tokens atomic.Int64
		net.set("a:1", func(r *http.Request) (*http.Response, error) { return listing(counting(tokens.Load()), "m")(r) })
		net.isReady("a:1", servesStatus(http.StatusOK))
		net.chat("a:1", trickle(&tokens))
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 30 * time.Second, MaxTokens: 16}))
		e := h.Pool().Endpoints()[0]
		for range 120 {
			time.Sleep(time.Second)
			e.Progressed(time.Now())
		}
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up: its streams go on", r)
		}
	})
}

// A reload that may have mended what made canaries and health checks impossible (a
// key, here) is followed by one of each at once; other reloads by no more than that.
func TestReloadAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0.2), "m"))
		keyed := func(then func(*http.Request) (*http.Response, error)) func(*http.Request) (*http.Response, error) {
			return func(r *http.Request) (*http.Response, error) {
				if r.Header.Get("Authorization") != "Bearer right" {
					return servesStatus(http.StatusUnauthorized)(r)
				}
				return then(r)
			}
		}
		net.isReady("a:1", keyed(servesStatus(http.StatusOK)))
		net.chat("a:1", keyed(sends(100*time.Millisecond, "OK")))
		reload := func(before *config, key string) (*config, *llmlb.Handle) {
			s := with(settings(t, net, "a:1"), llmlb.Canary{Interval: 30 * time.Second})
			s.Scrape.Bearer, s.Checks.MustPass = key, true
			c := newConfig(t, nil)
			h := c.watch(t, s)
			c.start(t)
			if before != nil {
				before.end(t)
			}
			return c, h
		}
		c, h := reload(nil, "wrong")
		time.Sleep(30 * time.Second)
		e := h.Pool().Endpoints()[0]
		asked := func() [2]uint64 {
			return [2]uint64{e.Checks(llmlb.ReadinessCheck, llmlb.CheckUnsuitable), e.Checks(llmlb.CanaryCheck, llmlb.CheckUnsuitable)}
		}
		before := asked()
		if before[0] == 0 || before[1] == 0 {
			t.Fatalf("%v checks were impossible", before)
		}
		c, _ = reload(c, "still wrong")
		time.Sleep(5 * time.Second)
		if after := asked(); after[0] != before[0]+1 || after[1] != before[1]+1 {
			t.Errorf("%v checks after a reload, %v before, want one more of each", after, before)
		}
		c, h = reload(c, "right")
		if took := upWithin(t, h, time.Minute); took > time.Second {
			t.Errorf("up %v after the reload that mended it", took)
		}
		if e.Checks(llmlb.ReadinessCheck, llmlb.CheckPassed) == 0 {
			t.Error("not asked whether it is ready")
		}
		time.Sleep(time.Second)
		if e.Checks(llmlb.CanaryCheck, llmlb.CheckPassed) == 0 {
			t.Error("no canary")
		}
		c.end(t)
	})
}

// Where no canary is sent since no model is known, the log says so once, with what
// to do. Where models come with traffic that is as it should be.
func TestNoModelIsSaidOnce(t *testing.T) {
	for what, c := range map[string]struct {
		page     func(*http.Request) (*http.Response, error)
		mustPass bool
		warns    int
	}{
		"no list":             {page: listless, warns: 1},
		"a list":              {page: listing(load(0, 0, 0), "m")},
		"nothing in memory":   {page: (&paths{pages: pages{"/api/ps": asJSON(`{"models":[]}`), modelsPath: lists("big")}}).answer},
		"nor will there ever": {page: (&paths{pages: pages{"/api/ps": asJSON(`{"models":[]}`), modelsPath: lists("big")}}).answer, mustPass: true, warns: 1},
		"gone":                {page: fails(reverseproxy.NewDialError(syscall.ECONNREFUSED))},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newServers()
				net.set("a:1", c.page)
				net.chat("a:1", sends(0, "OK"))
				s := with(settings(t, net, "a:1"), llmlb.Canary{Interval: 10 * time.Second})
				s.Checks.MustPass, s.Checks.Readiness.Off = c.mustPass, true
				core, logs := recorded()
				conf := newConfig(t, core)
				conf.watch(t, s)
				conf.start(t)
				time.Sleep(50 * time.Second)
				if n := count(lines(logs), "canary not sent"); n > 0 {
					t.Errorf("warned within the first minute")
				}
				time.Sleep(30 * time.Minute)
				conf.end(t)
				if n := count(lines(logs), "canary not sent"); n != c.warns {
					t.Errorf("warned %d times, want %d: %q", n, c.warns, lines(logs))
				}
			})
		})
	}
}

// listless is a server that has metrics and no list of models.
func listless(r *http.Request) (*http.Response, error) {
	if r.URL.Path == modelsPath {
		return servesStatus(http.StatusNotFound)(r)
	}
	return serves(load(0, 0, 0))(r)
}

// A server that is waited for and says that it has too much to do is there. In use,
// the same tells nothing.
func TestTooMuchToDoIsThere(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, 529} {
		synctest.Test(t, func(t *testing.T) {
			net := newServers()
			net.set("a:1", serves(load(0, 0, 0)))
			h := run(t, settings(t, net, "a:1"))
			time.Sleep(10 * time.Second)
			e := h.Pool().Endpoints()[0]
			for range 3 {
				e.NotReached(time.Now(), "connection refused")
			}
			if r := row(t, h, "a:1"); r.State != "down" {
				t.Fatalf("row is %+v", r)
			}
			net.isReady("a:1", servesStatus(status))
			upWithin(t, h, 5*time.Second)
			n := e.Checks(llmlb.ReadinessCheck, llmlb.CheckPassed)
			time.Sleep(time.Minute)
			if more := e.Checks(llmlb.ReadinessCheck, llmlb.CheckPassed) - n; more > 0 || row(t, h, "a:1").State != "up" {
				t.Errorf("%d checks passed with %d, row is %+v", more, status, row(t, h, "a:1"))
			}
		})
	}
}
