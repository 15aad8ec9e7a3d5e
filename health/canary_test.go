package health

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// events answers with a stream of the events.
func events(list ...string) func(*http.Request) (*http.Response, error) {
	return servesAs("text/event-stream", "data: "+strings.Join(list, "\n\ndata: ")+"\n\n")
}

// sends answers after a while with a whole stream of the text.
func sends(after time.Duration, text string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(after):
			return events(content(text), `{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`, "[DONE]")(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func content(text string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, text)
}

// listing answers scrapes with the page, and the question for the list of models.
func listing(page string, models ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == modelsPath {
			return lists(models...)(r)
		}
		return serves(page)(r)
	}
}

// with returns settings with canaries.
func with(s *llmlb.Settings, c llmlb.Canary) *llmlb.Settings {
	s.Checks.Canary = c
	return s
}

// A canary is one token long, asks for the model that the server lists first, and
// begins with something that no cache has.
func TestWhatACanaryAsksFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "org/model", "other"))
		net.chat("a:1", sends(10*time.Millisecond, "OK"))
		run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 10 * time.Second, Prompt: "What is 2+2?"}))
		time.Sleep(65 * time.Second)
		if n := net.tried("a:1"); n < 5 || n > 7 {
			t.Errorf("%d canaries in a minute, want one each 10 s", n)
		}
		seen := make(map[string]bool)
		for _, text := range net.asked("a:1") {
			path, body, _ := strings.Cut(text, " ")
			var q struct {
				Model     string `json:"model"`
				MaxTokens int    `json:"max_tokens"`
				Stream    bool   `json:"stream"`
				Messages  []struct{ Role, Content string }
			}
			if err := json.Unmarshal([]byte(body), &q); err != nil {
				t.Fatal(err)
			}
			first, rest, _ := strings.Cut(q.Messages[0].Content, "\n")
			if path != chatPath || q.Model != "org/model" || q.MaxTokens != 1 || !q.Stream || rest != "What is 2+2?" || len(first) != 16 || seen[first] {
				t.Errorf("asked %s", text)
			}
			if strings.Contains(body, "priority") {
				t.Errorf("%s names a priority, which engines refuse", body)
			}
			seen[first] = true
		}
	})
}

// A base model has no chats: it is asked for a completion, and from then on for
// that alone.
func TestCanaryOfABaseModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "m"))
		net.chat("a:1", func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == chatPath {
				return servesStatus(http.StatusNotFound)(r)
			}
			return events(`{"choices":[{"index":0,"text":" OK","finish_reason":"length"}]}`, "[DONE]")(r)
		})
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 5 * time.Second}))
		time.Sleep(time.Minute)
		e := h.Pool().Endpoints()[0]
		if n := e.Checks(llmlb.CanaryCheck, llmlb.CheckPassed); n < 9 || net.tried("a:1") != int(n)+1 {
			t.Errorf("%d passed of %d requests", n, net.tried("a:1"))
		}
		var q map[string]any
		if err := json.Unmarshal([]byte(strings.TrimPrefix(net.asked("a:1")[1], completionsPath+" ")), &q); err != nil || q["messages"] != nil || q["prompt"] == nil {
			t.Errorf("asked %s", net.asked("a:1")[1])
		}
	})
}

// An engine whose queue is stuck accepts everything, its health page is green, and
// nothing ever comes. It is out within the time that docs/health.md says.
func TestFrozenEngineIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(3, 0, 0.2), "m"))
		net.isReady("a:1", servesStatus(http.StatusOK))
		net.chat("a:1", sends(100*time.Millisecond, "OK"))
		const interval, timeout = 30 * time.Second, 4 * time.Second
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: interval, Timeout: timeout, Fails: 3}))
		time.Sleep(100 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Fatalf("row is %+v", r)
		}
		net.chat("a:1", hangs)
		frozen := time.Now()
		for row(t, h, "a:1").State == "up" && time.Since(frozen) < 10*time.Minute {
			time.Sleep(100 * time.Millisecond)
		}
		// interval + timeout + (fails − 1) × max(timeout, min(interval, 5 s))
		if took, most := time.Since(frozen), interval+timeout+2*5*time.Second; took > most {
			t.Errorf("out after %v, documented are %v", took, most)
		}
		if r := row(t, h, "a:1"); r.State != "down" || r.Reason != "canary: no token within 4s" {
			t.Errorf("row is %+v", r)
		}
		if n := net.mostOpen("canary of a:1"); n != 1 {
			t.Errorf("%d canaries were open at once", n)
		}
		net.chat("a:1", sends(100*time.Millisecond, "OK"))
		time.Sleep(11 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v, want up after two that passed", r)
		}
	})
}

// While real traffic succeeds there are no canaries; when it ends they begin.
func TestRealTrafficIsTheCanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(1, 0, 0), "m"))
		net.chat("a:1", hangs)
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 500 * time.Millisecond, Timeout: 300 * time.Millisecond}))
		e := h.Pool().Endpoints()[0]
		e.Progressed(time.Now())
		for range 50 {
			time.Sleep(200 * time.Millisecond)
			e.Progressed(time.Now())
		}
		if n := net.tried("a:1"); n > 0 {
			t.Errorf("%d canaries beside traffic that succeeds", n)
		}
		time.Sleep(10 * time.Second)
		if n := net.tried("a:1"); n < 15 || n > 20 || net.mostOpen("canary of a:1") != 1 {
			t.Errorf("%d canaries in 10 s without traffic, want one each 500 ms", n)
		}
	})
}

// No canary wakes a server, adds to one that has too much to do, or keeps one from
// being empty.
func TestWhoGetsNoCanary(t *testing.T) {
	asleep := load(0, 0, 0) + sleepStates(0, 1, 0)
	for what, c := range map[string]struct {
		page  func(*http.Request) (*http.Response, error)
		ready func(*http.Request) (*http.Response, error)
		then  func(*llmlb.Endpoint)
		opts  func(*llmlb.Settings)
	}{
		"draining":   {page: listing(load(1, 0, 0), "m"), then: func(e *llmlb.Endpoint) { e.Drain(time.Now(), llmlb.DrainOrder{}) }},
		"loading":    {page: listing(load(0, 0, 0), "m"), ready: says(503, `{"status":"loading model"}`)},
		"asleep":     {page: listing(asleep, "m")},
		"overloaded": {page: listing(load(9, 9, 0.99), "m"), opts: func(s *llmlb.Settings) { s.KVLimit = 0.95 }},
		"without a model": {page: func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == modelsPath {
				return servesStatus(404)(r)
			}
			return serves(load(0, 0, 0))(r)
		}},
		"an Ollama with nothing in memory": {page: (&paths{pages: pages{"/api/ps": asJSON(`{"models":[]}`), modelsPath: lists("big", "small")}}).answer},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newServers()
				net.set("a:1", c.page)
				net.isReady("a:1", c.ready)
				net.chat("a:1", sends(0, "OK"))
				s := with(settings(t, net, "a:1"), llmlb.Canary{Interval: 20 * time.Second})
				if c.opts != nil {
					c.opts(s)
				}
				h := run(t, s)
				if c.then != nil {
					c.then(h.Pool().Endpoints()[0])
				}
				time.Sleep(2 * time.Minute)
				if n := net.tried("a:1"); n > 0 {
					t.Errorf("%d canaries", n)
				}
			})
		})
	}
}

// Of an Ollama, which loads what it is asked for, a model is asked for that is
// loaded.
func TestCanaryLoadsNoModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", (&paths{pages: pages{
			"/api/ps": asJSON(`{"models":[{"name":"small:latest","model":"small:latest","size":100}]}`), modelsPath: lists("big", "small"),
		}}).answer)
		net.chat("a:1", sends(0, "OK"))
		run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 20 * time.Second}))
		time.Sleep(time.Minute)
		if n := len(net.asked("a:1")); n == 0 || !strings.Contains(net.asked("a:1")[0], `"model":"small:latest"`) {
			t.Errorf("asked %q", net.asked("a:1"))
		}
	})
}

// A server that cannot be tried stays in use, is warned of once, and is then left
// alone for ten minutes.
func TestUnsuitableIsWarnedOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "embedder"))
		net.chat("a:1", says(400, `{"error":{"message":"does not support generate"}}`))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 10 * time.Second}))
		c.start(t)
		time.Sleep(35 * time.Minute)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v", r)
		}
		c.end(t)
		if n := count(lines(logs), "canary unsuitable"); n != 1 {
			t.Errorf("warned %d times", n)
		}
		if n := net.tried("a:1"); n > 8 { // two forms each time
			t.Errorf("asked %d times", n)
		}
	})
}

// A server that is far slower than it was when idle gets less, and stays in use.
func TestSlowerThanItsOwnBaseline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "m"))
		net.chat("a:1", sends(100*time.Millisecond, "OK"))
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 10 * time.Second}))
		time.Sleep(70 * time.Second)
		net.chat("a:1", sends(time.Second, "OK"))
		time.Sleep(45 * time.Second)
		if r := row(t, h, "a:1"); r.State != "degraded" || r.Share >= 1 || !strings.HasPrefix(r.Reason, "first token after 1s when idle, usually 1") {
			t.Errorf("row is %+v", r)
		}
		net.chat("a:1", sends(100*time.Millisecond, "OK"))
		time.Sleep(45 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" || r.Share != 1 {
			t.Errorf("row is %+v", r)
		}
		// Busy with others, it is slow for a reason.
		net.set("a:1", listing(load(5, 3, 0.5), "m"))
		net.chat("a:1", sends(time.Second, "OK"))
		time.Sleep(time.Minute)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v", r)
		}
	})
}

// Where nobody asks whether a server is ready, a canary brings it into use with
// initial must_pass; where somebody can be asked, canaries wait for that.
func TestMustPassACanary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "m"))
		net.isReady("a:1", servesStatus(http.StatusNotFound))
		net.chat("a:1", sends(0, "OK"))
		net.set("b:1", servesStatus(http.StatusNotFound))
		net.chat("b:1", sends(0, "OK"))
		s := with(settings(t, net, "a:1"), llmlb.Canary{Interval: 10 * time.Second})
		s.Checks.MustPass = true
		h := run(t, s)
		unscraped := with(settings(t, net, "b:1"), llmlb.Canary{Interval: 10 * time.Second, Model: "m"})
		unscraped.Pool += " unscraped"
		unscraped.Scrape.Engine, unscraped.Checks.MustPass = none, true
		other := run(t, unscraped)
		time.Sleep(8 * time.Second)
		for _, r := range []llmlb.EndpointStatus{row(t, h, "a:1"), row(t, other, "b:1")} {
			if r.State != "up" {
				t.Errorf("row is %+v", r)
			}
		}
	})
}

// That nobody can reach a server is no result of a canary's.
func TestCanaryOfWhoCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", listing(load(0, 0, 0), "m"))
		net.chat("a:1", sends(0, "OK"))
		h := run(t, with(settings(t, net, "a:1"), llmlb.Canary{Interval: 5 * time.Second}))
		time.Sleep(10 * time.Second)
		refused := fails(reverseproxy.NewDialError(io.ErrUnexpectedEOF))
		net.set("a:1", refused)
		net.chat("a:1", refused)
		time.Sleep(time.Minute)
		e := h.Pool().Endpoints()[0]
		if n := e.Checks(llmlb.CanaryCheck, llmlb.CheckFailed); n != 0 {
			t.Errorf("%d canaries failed", n)
		}
		net.set("a:1", listing(load(0, 0, 0), "m"))
		net.chat("a:1", sends(0, "OK"))
		time.Sleep(5 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" {
			t.Errorf("row is %+v", r)
		}
	})
}
