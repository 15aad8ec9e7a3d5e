package health

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// says answers with a status and a body.
func says(code int, body string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, ContentLength: int64(len(body)),
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// What engines answer, and what is made of it.
func TestReadinessOfEveryAnswer(t *testing.T) {
	const passed, failed, notReady, loading, unsuitable = llmlb.CheckPassed, llmlb.CheckFailed, llmlb.CheckNotReady, llmlb.CheckLoading, llmlb.CheckUnsuitable
	for _, c := range []struct {
		what         string
		status       int
		body         string
		engines, own llmlb.CheckVerdict // at the engine's path, and at one that the operator named
		why          reason
	}{
		{"vLLM", 200, "", passed, passed, ""},
		{"llama.cpp", 200, `{"status":"ok"}`, passed, passed, ""},
		{"Ollama", 200, `{"version":"0.12.3"}`, passed, passed, ""},
		{"no content", 204, "", passed, passed, ""},
		{"something else", 200, `{"status":{"loading":true}}`, passed, passed, ""},
		{"a word in a page", 200, "<html>loading</html>", passed, passed, ""},
		{"llama.cpp loads", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, loading, loading, loadingModel},
		{"older llama.cpp loads", 503, `{"status":"loading model"}`, loading, loading, loadingModel},
		{"one that says 200 meanwhile", 200, `{"status":"loading model"}`, loading, loading, loadingModel},
		{"LMDeploy starts", 503, `{"status":"initializing"}`, loading, loading, loadingModel},
		{"LMDeploy sleeps", 200, `{"status":"sleeping"}`, loading, loading, asleep},
		{"LMDeploy is broken", 503, `{"status":"unhealthy"}`, notReady, notReady, "503"},
		{"TGI", 503, `{"error":"unhealthy","error_type":"healthcheck"}`, notReady, notReady, "503"},
		{"vLLM is dead", 503, "", notReady, notReady, "503"},
		{"no such path", 404, `{"detail":"Not Found"}`, unsuitable, failed, "404"},
		{"not with GET", 405, "", unsuitable, failed, "405"},
		{"not built in", 501, "", unsuitable, failed, "501"},
		{"a key is missing", 401, "", unsuitable, failed, "401: check upstream_auth"},
		{"a key is wrong", 403, "", unsuitable, failed, "403: check upstream_auth"},
		{"broken", 500, "", failed, failed, "500"},
		{"a gateway before it", 502, "", failed, failed, "502"},
	} {
		for ours, want := range map[bool]llmlb.CheckVerdict{false: c.engines, true: c.own} {
			v, why, tells := readyVerdict(c.status, []byte(c.body), 0, ours)
			if v != want || why != c.why || !tells {
				t.Errorf("%s: %v for %q, want %v for %q", c.what, v, why, want, c.why)
			}
		}
	}
	if _, _, tells := readyVerdict(http.StatusTooManyRequests, nil, 0, true); tells {
		t.Error("a server that has too much to do tells something of its health")
	}
}

// Triton's protocol has 4xx for what is not ready.
func TestTritonThatIsNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", servesStatus(http.StatusNotFound))
		net.isReady("a:1", servesStatus(http.StatusBadRequest))
		s := settings(t, net, "a:1")
		s.Scrape.Engine = "triton"
		h := run(t, s)
		time.Sleep(10 * time.Second)
		if r := row(t, h, "a:1"); r.State != "starting" {
			t.Errorf("row is %+v, want starting", r)
		}
		net.isReady("a:1", servesStatus(http.StatusOK))
		time.Sleep(1100 * time.Millisecond)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up", r)
		}
	})
}

// A server that loads its model is starting, and says so; it is asked once a
// second, and is in use with the first check that passes.
func TestLoadingIsStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", servesStatus(http.StatusServiceUnavailable))
		net.isReady("a:1", says(503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`))
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(10 * time.Second)
		if r := row(t, h, "a:1"); r.State != "starting" || r.Reason != string(loadingModel) {
			t.Errorf("row is %+v, want starting because it loads", r)
		}
		if n := net.checked("a:1"); n < 9 || n > 11 {
			t.Errorf("asked %d times in 10 s, want about 10", n)
		}
		net.isReady("a:1", says(200, `{"status":"ok"}`))
		time.Sleep(time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v a second after it was ready, want up", r)
		}
		from := net.checked("a:1")
		time.Sleep(50 * time.Second)
		if n := net.checked("a:1") - from; n < 9 || n > 11 {
			t.Errorf("asked %d times in 50 s when up, want 10", n)
		}
	})
}

// Three checks in a row that fail take a server out, two that pass bring it back,
// and each is logged once.
func TestFailingReadinessTakesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(7 * time.Second)
		net.isReady("a:1", servesStatus(http.StatusInternalServerError))
		time.Sleep(10 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v after two checks that failed, want up", r)
		}
		time.Sleep(5 * time.Second)
		if r := row(t, h, "a:1"); r.State != "down" || r.Reason != "readiness: 500" {
			t.Errorf("row is %+v after three, want down for 500", r)
		}
		net.isReady("a:1", servesStatus(http.StatusOK))
		time.Sleep(5 * time.Second)
		if r := row(t, h, "a:1"); r.State != "down" {
			t.Errorf("row is %+v after one that passed, want down", r)
		}
		time.Sleep(5 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v after two, want up", r)
		}
		c.end(t)
		list := lines(logs)
		if count(list, `"level":"warn","msg":"endpoint state changed"`) != 1 || count(list, `"from":"down","to":"up"`) != 1 {
			t.Errorf("log %q", list)
		}
	})
}

// A check that hangs holds up no scrape, and a scrape that hangs no check.
func TestChecksAndScrapesDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(1, 0, 0.1)))
		net.isReady("a:1", hangs)
		net.set("b:1", hangs)
		net.isReady("b:1", servesStatus(http.StatusOK))
		s := settings(t, net, "a:1", "b:1")
		s.Checks.Readiness.Interval, s.Checks.Readiness.Timeout = time.Second, 10*time.Second
		run(t, s)
		time.Sleep(time.Minute)
		if n := net.count("a:1", time.Time{}); n < 59 {
			t.Errorf("a server whose checks hang was scraped %d times in a minute", n)
		}
		if n := net.checked("b:1"); n < 59 {
			t.Errorf("a server whose scrapes hang was checked %d times in a minute", n)
		}
		if n := net.mostOpen("check of a:1"); n != 1 {
			t.Errorf("%d checks of one server were open at once", n)
		}
	})
}

// A check that a reload finds in flight ends as it would have, and counts; one
// that a stop ends counts for nothing. Intervals change under running checks.
func TestReloadUnderChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		net.isReady("a:1", func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(150 * time.Millisecond):
				return servesStatus(200)(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		load := func() (*config, *llmlb.Handle) {
			s := settings(t, net, "a:1")
			s.Checks.Readiness = llmlb.Readiness{Interval: 200 * time.Millisecond, Timeout: time.Second, Fails: 2, Passes: 2}
			c := newConfig(t, nil)
			return c, c.watch(t, s)
		}
		c, h := load()
		c.start(t)
		e := h.Pool().Endpoints()[0]
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			next, _ := load()
			next.start(t)
			c.end(t)
			c = next
			if r := row(t, h, "a:1"); r.State != "up" {
				t.Fatalf("row is %+v", r)
			}
		}
		time.Sleep(time.Second)
		c.end(t)
		if passed, failed := e.Checks(llmlb.ReadinessCheck, llmlb.CheckPassed), e.Checks(llmlb.ReadinessCheck, llmlb.CheckFailed); passed < 12 || failed != 0 {
			t.Errorf("%d checks passed and %d failed in 4 s at 200 ms", passed, failed)
		}
	})
}

// A server that was stopped and starts again gets nothing until it says that it
// is ready, however early its port is open; and it is asked at once.
func TestBackFromBeingUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(10 * time.Second)
		net.set("a:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		time.Sleep(30 * time.Second)
		if r := row(t, h, "a:1"); r.State != "down" || r.Reason != "connection refused" {
			t.Errorf("row is %+v", r)
		}
		net.isReady("a:1", servesStatus(http.StatusServiceUnavailable))
		net.set("a:1", serves(load(0, 0, 0)))
		time.Sleep(10 * time.Second)
		if r := row(t, h, "a:1"); r.State != "starting" || r.Reason != "503" {
			t.Errorf("row is %+v, want starting", r)
		}
		net.isReady("a:1", servesStatus(http.StatusOK))
		time.Sleep(1100 * time.Millisecond)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up", r)
		}
	})
}

// With initial must_pass a server is asked at once when the gateway starts, and
// has nothing to do until it has answered.
func TestMustPassAsksAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		net.set("b:1", hangs)
		s := settings(t, net, "a:1", "b:1")
		s.Checks.MustPass = true
		h := run(t, s)
		synctest.Wait()
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up", r)
		}
		time.Sleep(3 * time.Second)
		if r := row(t, h, "b:1"); r.State != "starting" || r.Reason == "" {
			t.Errorf("row is %+v, want starting", r)
		}
	})
}

// A path that the engine lacks is said once, and asked for once a minute; that of
// the engine is asked for as soon as it is known.
func TestEnginesOwnPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		asked := make(map[string]int)
		net.isReady("a:1", func(r *http.Request) (*http.Response, error) {
			net.mu.Lock()
			asked[r.URL.Path]++
			net.mu.Unlock()
			return servesStatus(http.StatusNotFound)(r)
		})
		pages := &paths{pages: pages{"/v1/metrics": serves(nimPage)}}
		net.set("a:1", pages.answer)
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(9 * time.Minute)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up", r)
		}
		c.end(t)
		if asked["/health"] != 1 || asked["/v1/health/ready"] < 8 || asked["/v1/health/ready"] > 10 {
			t.Errorf("asked %v", asked)
		}
		if list := lines(logs); count(list, "readiness cannot be asked") != 1 {
			t.Errorf("log %q", list)
		}
	})
}

// Where nothing is scraped a server is asked for a path that the operator names,
// also on another port, and for nothing else.
func TestReadinessWithoutAnEngine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", servesStatus(http.StatusNotFound))
		var elsewhere atomic.Int32
		net.isReady("a:9", func(r *http.Request) (*http.Response, error) {
			if elsewhere.Add(1); r.URL.Path != "/ready" {
				t.Errorf("asked for %s", r.URL)
			}
			return servesStatus(http.StatusNotFound)(r)
		})
		s := settings(t, net, "a:1")
		s.Scrape.Engine = none
		c := newConfig(t, nil)
		c.watch(t, s)
		c.start(t)
		time.Sleep(time.Minute)
		if n := net.checked("a:1") + net.count("a:1", time.Time{}); n > 0 {
			t.Errorf("asked %d times for nothing", n)
		}
		s = settings(t, net, "a:1")
		s.Scrape.Engine, s.Checks.Readiness.Path = none, ":9/ready"
		other := newConfig(t, nil)
		h := other.watch(t, s)
		other.start(t)
		c.end(t)
		time.Sleep(time.Minute)
		if n := elsewhere.Load(); n < 11 || n > 13 {
			t.Errorf("asked %d times in a minute, want 12", n)
		}
		if r := row(t, h, "a:1"); r.State != "down" || r.Reason != "readiness: 404" {
			t.Errorf("row is %+v; want down, for the path that was named is not there", r)
		}
		other.end(t)
	})
}

// A saturated server that does not answer in time, and generates, stays in use; one
// that generates nothing does not.
func TestProgressIsLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var tokens atomic.Int64
		net.set("a:1", func(r *http.Request) (*http.Response, error) {
			return serves(load(8, 40, 0.9) + "vllm:generation_tokens_total{model_name=\"m\"} " + fmt.Sprint(tokens.Add(100)) + "\n")(r)
		})
		net.isReady("a:1", hangs)
		net.set("b:1", serves(load(8, 40, 0.9)))
		net.isReady("b:1", hangs)
		s := settings(t, net, "a:1", "b:1")
		s.Checks.Readiness.Timeout = 2 * time.Second
		h := run(t, s)
		time.Sleep(time.Minute)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v; want up, for it generates", r)
		}
		if r := row(t, h, "b:1"); r.State != "down" || r.Reason != "readiness: timeout after 2s" {
			t.Errorf("row is %+v, want down", r)
		}
	})
}
