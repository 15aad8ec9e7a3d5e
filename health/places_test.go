package health

import (
	"cmp"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// paths is a server that answers by path, 404 elsewhere, and notes what it is
// asked for.
type paths struct {
	mu    sync.Mutex
	pages map[string]func(*http.Request) (*http.Response, error)
	asked []string
}

func (p *paths) answer(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	if r.URL.Path != modelsPath && !isCheck(r.URL.Path) {
		p.asked = append(p.asked, r.URL.Path)
	}
	page := p.pages[r.URL.Path]
	p.mu.Unlock()
	if page == nil {
		page = servesStatus(http.StatusNotFound)
	}
	return page(r)
}

func (p *paths) times(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, a := range p.asked {
		if a == path {
			n++
		}
	}
	return n
}

// statistics is what TensorRT-LLM serves where others have metrics.
var statistics = servesAs("application/json", `[{"numActiveRequests":3}]`)

// Auto looks at the places that engines use in turn, and stays where it finds
// numbers.
func TestAutoLooksAtEveryPlace(t *testing.T) {
	for _, c := range []struct {
		engine, path, page string
		order              []string
	}{
		{"vllm", "/metrics", load(1, 2, 0.3), []string{"/metrics", "/metrics"}},
		{"trtllm", "/prometheus/metrics", trtllmPage, []string{"/metrics", "/prometheus/metrics", "/prometheus/metrics"}},
		{"nim", "/v1/metrics", nimPage, []string{"/metrics", "/prometheus/metrics", "/v1/metrics", "/v1/metrics"}},
		{"sglang", "/v1/loads", loadsPage, []string{"/metrics", "/prometheus/metrics", "/v1/metrics", "/v1/loads", "/v1/loads"}},
		{"ollama", "/api/ps", `{"models":[]}`, []string{"/metrics", "/prometheus/metrics", "/v1/metrics", "/v1/loads", "/api/ps", "/api/ps"}},
		// A NIM that passes on vLLM's names.
		{"vllm", "/v1/metrics", load(1, 2, 0.3), []string{"/metrics", "/prometheus/metrics", "/v1/metrics", "/v1/metrics"}},
	} {
		t.Run(c.engine+" at "+c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := serves(c.page)
				if c.page[0] == '{' {
					page = servesAs("application/json", c.page)
				}
				net, server := newServers(), &paths{pages: map[string]func(*http.Request) (*http.Response, error){c.path: page}}
				net.set("a:1", server.answer)
				h := run(t, settings(t, net, "a:1"))
				time.Sleep(8 * time.Second)
				reason := ""
				if c.path == "/v1/loads" {
					reason = "/v1/loads is read, for /metrics says 404"
				}
				if r := row(t, h, "a:1"); r.Engine != c.engine || r.Reason != reason {
					t.Errorf("row is %+v, want %s", r, c.engine)
				}
				server.mu.Lock()
				defer server.mu.Unlock()
				if len(server.asked) < len(c.order) || !slices.Equal(server.asked[:len(c.order)], c.order) {
					t.Errorf("asked for %q, want %q first", server.asked, c.order)
				}
			})
		})
	}
}

// Reading TensorRT-LLM's statistics takes them from whoever collects them: auto
// reads them once at most, and not at all if the engine is named.
func TestStatisticsAreLeftAlone(t *testing.T) {
	for _, c := range []struct {
		what, engine, reason string
		page                 func(*http.Request) (*http.Response, error)
		most                 int
	}{
		{"auto", auto, "", serves(trtllmPage), 1},
		{"auto with metrics off", auto, "not a metrics page (application/json)", nil, 1},
		{"named", "trtllm", "", serves(trtllmPage), 0},
		{"named with metrics off", "trtllm", "404", nil, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, server := newServers(), &paths{pages: map[string]func(*http.Request) (*http.Response, error){"/metrics": statistics}}
				if c.page != nil {
					server.pages["/prometheus/metrics"] = c.page
				}
				net.set("a:1", server.answer)
				s := settings(t, net, "a:1")
				s.Scrape.Engine = c.engine
				core, logs := recorded()
				cfg := newConfig(t, core)
				h := cfg.watch(t, s)
				cfg.start(t)
				time.Sleep(5 * time.Minute)
				r := row(t, h, "a:1")
				cfg.end(t)
				if n := server.times("/metrics"); n > c.most {
					t.Errorf("/metrics was read %d times in 5 minutes, want %d at most", n, c.most)
				}
				if r.Reason != c.reason || (r.Engine == "trtllm") != (c.page != nil) {
					t.Errorf("row is %+v, want reason %q", r, c.reason)
				}
				if n := len(lines(logs)); n > 3 {
					t.Errorf("%d log lines: %q", n, lines(logs))
				}
			})
		})
	}
}

// Once the server is gone, what comes up may be another engine, and everything
// is looked at again.
func TestAutoLooksEverywhereAfterAServerWasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &paths{pages: map[string]func(*http.Request) (*http.Response, error){"/metrics": statistics}}
		net.set("a:1", server.answer)
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(time.Minute)
		net.set("a:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		time.Sleep(time.Minute)
		server.pages["/metrics"] = serves(load(1, 2, 0.3))
		net.set("a:1", server.answer)
		time.Sleep(40 * time.Second) // a whole round and a pause
		if r := row(t, h, "a:1"); r.Engine != "vllm" {
			t.Errorf("row is %+v, want vllm", r)
		}
	})
}

// Where a page lacks an engine's metrics, the row says that and not that other
// places do not exist.
func TestReasonIsTheTellingOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &paths{pages: map[string]func(*http.Request) (*http.Response, error){
			"/metrics": serves("http_requests_total 1\n"),
		}}
		net.set("a:1", server.answer)
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		for range 100 {
			time.Sleep(time.Second)
			if r := row(t, h, "a:1"); r.Reason != string(familyNotFound) && r.Reason != "" {
				t.Fatalf("row is %+v, want %q", r, familyNotFound)
			}
		}
		c.end(t)
		if n := len(lines(logs)); n != 1 {
			t.Errorf("log is %q, want one line", lines(logs))
		}
	})
}

// Names without a prefix may be anybody's: they are NIM's at NIM's path only.
func TestPlainNamesAreBelievedAtTheirPathAlone(t *testing.T) {
	for _, c := range []struct {
		engine, metrics, path string
		read                  bool
	}{
		{auto, "", "/metrics", false},
		{auto, "", "/prometheus/metrics", false},
		{auto, "", "/v1/metrics", true},
		{auto, "/metrics", "/metrics", false},
		{auto, "/x/v1/metrics", "/x/v1/metrics", true},
		{auto, ":9000/v1/metrics", "/v1/metrics", true},
		{auto, ":9000", "/v1/metrics", true}, // the port alone leaves the path open
		{"nim", "", "/v1/metrics", true},
		{"nim", "/metrics", "/metrics", true},
	} {
		f, s := finder{}, &llmlb.Scrape{Engine: c.engine, Metrics: c.metrics, Interval: time.Second}
		read := false
		for range 3 {
			list, what := f.next(s)
			src, err := parseSource(c.metrics)
			if err != nil {
				t.Fatal(err)
			}
			path := cmp.Or(src.path, what.path)
			p := &page{body: []byte(nimPage), scratch: scratches.Get().(*scratch), contact: contact{conclusive: true}}
			if _, _, _, why := readPage(time.Now(), p, list); why == "" && path == c.path {
				read = true
			}
			f.failed(s, p, familyNotFound)
		}
		if read != c.read {
			t.Errorf("engine %s, metrics %q: page at %s read is %t, want %t", c.engine, c.metrics, c.path, read, c.read)
		}
	}
}
