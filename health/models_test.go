package health

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Lists of models as engines write them.
func TestModelLists(t *testing.T) {
	for what, c := range map[string]struct {
		body string
		d    *Dialect
		want string // id<parent
		why  reason
	}{
		"vLLM with an adapter": {`{"object":"list","data":[
			{"id":"org/base","object":"model","created":1,"owned_by":"vllm","root":"org/base","parent":null,"max_model_len":8192,"permission":[{"id":"p"}]},
			{"id":"sql","object":"model","root":"/adapters/sql","parent":"org/base","max_model_len":null}]}`, &vLLM, "[org/base< sql<org/base]", ""},
		"llama.cpp": {`{"models":[{"name":"x.gguf","model":"x.gguf","capabilities":["completion"]}],"object":"list",
			"data":[{"id":"x.gguf","aliases":[],"object":"model","owned_by":"llamacpp","meta":{"n_ctx_train":4096}}]}`, &llamacpp, "[x.gguf<]", ""},
		"llama.cpp with several": {`{"data":[{"id":"a","status":{"value":"loaded","args":["-c","1"]}},{"id":"b","status":{"value":"unloaded"}}],"object":"list"}`, &llamacpp, "[a< b<]", ""},
		"Ollama":                 {`{"object":"list","data":[{"id":"llama3.2:latest","object":"model","owned_by":"library"},{"id":"qwen3:8b"}]}`, &ollama, "[llama3.2:latest< qwen3:8b< llama3.2<]", ""},
		"Ollama without any":     {`{"object":"list","data":null}`, &ollama, "[]", ""},
		"before it is known":     {`{"data":[{"id":"llama3.2:latest"}]}`, nil, "[llama3.2:latest<]", ""},
		"tags of others":         {`{"data":[{"id":"x:latest"}]}`, &vLLM, "[x:latest<]", ""},
		"twice":                  {`{"data":[{"id":"a"},{"id":"a","parent":"b"}]}`, nil, "[a<]", ""},
		"odd entries":            {`{"data":[7,null,{},{"id":7},{"id":""},{"id":"\u202e"},{"id":"ok","parent":7},{"id":"` + strings.Repeat("x", 257) + `"}]}`, nil, "[ok<]", ""},
		"empty":                  {`{"data":[]}`, nil, "[]", ""},
		"an error":               {`{"error":{"message":"no"}}`, nil, "[]", "no list of models"},
		"another shape":          {`{"data":{"id":"a"}}`, nil, "[]", "no list of models"},
		"a page of metrics":      {load(1, 2, 0.5), nil, "[]", "no list of models"},
		"cut off":                {`{"data":[{"id":"a"},{"i`, nil, "[]", brokenJSON},
	} {
		t.Run(what, func(t *testing.T) {
			list, why := readModels([]byte(c.body), c.d)
			got := []string{}
			for _, m := range list {
				got = append(got, m.ID+"<"+m.Parent)
			}
			if fmt.Sprint(got) != c.want || why != c.why {
				t.Errorf("read %v (%q), want %s (%q)", got, why, c.want, c.why)
			}
		})
	}
	var b strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&b, `,{"id":"m%d"}`, i)
	}
	// Of a list that is cut, what stands behind the cut would seem not served.
	if list, why := readModels([]byte(`{"data":[`+b.String()[1:]+`]}`), nil); len(list) != 0 || why != "too many models" {
		t.Errorf("%d models kept (%q) of 5,000, want none", len(list), why)
	}
	junk := `{"data":[` + strings.Repeat("1,", 3_000_000) + `1]}`
	if list, why := readModels([]byte(junk), nil); len(list) != 0 || why != "too many models" {
		t.Errorf("%d models kept (%q) of a list of numbers, want none", len(list), why)
	}
}

func FuzzModels(f *testing.F) {
	for _, seed := range []string{
		`{"data":[{"id":"a","parent":"b"}]}`, `{"data":[{"id":"a:latest"},{"id":":latest"}]}`, `{"data":null}`,
		`{"data":[[{"id":1}]],"data":[]}`, `{"data":[{"id":"\ud800"}]}`, `[`, "", `{"data":[{"id":"a"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		list, why := readModels(body, &ollama)
		if why != "" && len(list) > 0 || len(list) > maxListed {
			t.Errorf("%d models (%q)", len(list), why)
		}
		seen := make(map[string]bool)
		for _, m := range list {
			if !nameable(m.ID) || seen[m.ID] || m.Parent != "" && !nameable(m.Parent) {
				t.Errorf("%+v", m)
			}
			seen[m.ID] = true
		}
	})
}

// modelServer answers with metrics, and with the list of models it has.
type modelServer struct {
	mu   sync.Mutex
	page string
	list func(*http.Request) (*http.Response, error)
}

func (m *modelServer) answer(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	page, list := m.page, m.list
	m.mu.Unlock()
	if r.URL.Path == modelsPath {
		return list(r)
	}
	return serves(page)(r)
}

// now replaces what the server has; an empty page leaves the one there is.
func (m *modelServer) now(page string, list func(*http.Request) (*http.Response, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.page, m.list = cmp.Or(page, m.page), list
}

func lists(ids ...string) func(*http.Request) (*http.Response, error) {
	var entries []string
	for _, id := range ids {
		entries = append(entries, fmt.Sprintf(`{"id":%q}`, id))
	}
	return servesAs("application/json", `{"object":"list","data":[`+strings.Join(entries, ",")+`]}`)
}

// serving reports whether the only server of the pool is known to have the model.
func serving(h *llmlb.Handle, model string) string {
	e := h.Pool().Current().Members[0].Endpoint
	h.Pool().Lock()
	defer h.Pool().Unlock()
	switch yes, known := e.Serves(llmlb.ModelHash(model), time.Now()); {
	case !known:
		return "unknown"
	case yes:
		return "yes"
	}
	return "no"
}

// What a server has is known from the first contact on, follows what is loaded
// and unloaded within half a minute, and at once after a restart. The list is
// asked for twice a minute, and scrapes keep their rhythm.
func TestListIsReadInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &modelServer{page: load(1, 0, 0) + "vllm:prompt_tokens_total 1000\n", list: lists("base", "sql")}
		net.set("a:1", server.answer)
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(1500 * time.Millisecond)
		if a, b := serving(h, "sql"), serving(h, "other"); a != "yes" || b != "no" {
			t.Errorf("after the first scrape sql is served: %s, other: %s; want yes and no", a, b)
		}
		if got := fmt.Sprint(row(t, h, "a:1").Models); got != "[base sql]" {
			t.Errorf("the row shows %s", got)
		}
		server.now("", lists("base", "other"))
		time.Sleep(31 * time.Second)
		if a, b := serving(h, "sql"), serving(h, "other"); a != "no" || b != "yes" {
			t.Errorf("half a minute later sql is served: %s, other: %s; want no and yes", a, b)
		}
		from := time.Now()
		time.Sleep(5 * time.Minute)
		net.mu.Lock()
		asked := 0
		for _, at := range net.lists["a:1"] {
			if !at.Before(from) {
				asked++
			}
		}
		net.mu.Unlock()
		if n := net.count("a:1", from); asked != 10 || n < 299 || n > 301 {
			t.Errorf("%d lists and %d scrapes in 5 minutes, want 10 and 300", asked, n)
		}
		if n := net.mostOpen("a:1"); n != 1 {
			t.Errorf("%d requests to one server at once", n)
		}
		server.now(load(0, 0, 0)+"vllm:prompt_tokens_total 1\n", lists("new"))
		time.Sleep(1100 * time.Millisecond)
		if got := serving(h, "new"); got != "yes" {
			t.Errorf("right after the restart the new model is served: %s", got)
		}
	})
}

// A list that does not come leaves the old one, which stops being believed after
// some minutes; nobody is alarmed, and scrapes miss a beat at most.
func TestListThatFailsIsQuiet(t *testing.T) {
	for what, broken := range map[string]func(*http.Request) (*http.Response, error){
		"404":        servesStatus(404),
		"hangs":      hangs,
		"broken":     servesAs("application/json", `{"data":[{"id":`),
		"html":       servesAs("text/html", "<html>"),
		"elsewhere":  redirects("http://b:1/v1/models"),
		"too large":  servesAs("application/json", `{"data":[`+strings.Repeat(" ", maxPage)+`]}`),
		"never ends": drips(`{"data":[`+strings.Repeat(" ", 1000), 100*time.Millisecond),
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net, server := newServers(), &modelServer{page: load(1, 0, 0), list: lists("base")}
				net.set("a:1", server.answer)
				net.set("b:1", func(*http.Request) (*http.Response, error) {
					t.Error("another server was asked")
					return servesStatus(404)(nil)
				})
				core, logs := observer.New(zap.DebugLevel)
				c := newConfig(t, core)
				h := c.watch(t, settings(t, net, "a:1"))
				c.start(t)
				time.Sleep(2 * time.Second)
				server.now("", broken)
				from := time.Now()
				time.Sleep(4 * time.Minute)
				if r := row(t, h, "a:1"); r.Reason != "" || r.Running == nil || serving(h, "base") != "yes" {
					t.Errorf("row is %+v, base served: %s; want the old list and no reason", r, serving(h, "base"))
				}
				if n := net.count("a:1", from); n < 230 {
					t.Errorf("%d scrapes in 4 minutes, want nearly 240", n)
				}
				time.Sleep(2 * time.Minute)
				if got := serving(h, "base"); got != "unknown" {
					t.Errorf("after 6 minutes base is served: %s, want unknown", got)
				}
				c.end(t)
				all := lines(logs)
				if n := count(all, "model list not read"); n != 1 || count(all, `"debug"`) != 1 || count(all, `"warn"`) != 0 {
					t.Errorf("log is %q, want one line, for debugging", all)
				}
			})
		})
	}
}

func redirects(to string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusFound, Header: http.Header{"Location": {to}}, Body: http.NoBody}, nil
	}
}

// A server that was loading at first, or away for a while, has its list read as
// soon as it is there, one without metrics as well, and with engine none nothing
// is asked.
func TestWhenTheListIsRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &modelServer{page: load(1, 0, 0), list: lists("base")}
		net.set("a:1", servesStatus(503))
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(3 * time.Second)
		net.set("a:1", server.answer)
		time.Sleep(1100 * time.Millisecond)
		if got := serving(h, "base"); got != "yes" {
			t.Errorf("once it has loaded base is served: %s", got)
		}
		net.set("a:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		time.Sleep(7 * time.Second)
		server.now("", lists("new"))
		net.set("a:1", server.answer)
		time.Sleep(1100 * time.Millisecond)
		if got := serving(h, "new"); got != "yes" {
			t.Errorf("once it is back the new model is served: %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &paths{pages: map[string]func(*http.Request) (*http.Response, error){modelsPath: lists("base")}}
		net.set("a:1", server.answer)
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(1100 * time.Millisecond)
		if got := serving(h, "base"); got != "yes" {
			t.Errorf("without metrics base is served: %s", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		net, server := newServers(), &modelServer{page: load(1, 0, 0), list: lists("base")}
		net.set("a:1", server.answer)
		s := settings(t, net, "a:1")
		s.Scrape.Engine = none
		h := run(t, s)
		time.Sleep(time.Minute)
		if got, n := serving(h, "base"), len(net.lists["a:1"]); got != "unknown" || n != 0 {
			t.Errorf("with engine none base is served: %s, asked %d times", got, n)
		}
	})
}

// The list is asked of the upstream itself wherever its metrics are, with its
// key; and the end of the configuration ends the question.
func TestListIsAskedOfTheUpstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		var key, accept string
		ended := false
		net.set("a:1", func(r *http.Request) (*http.Response, error) {
			key, accept = r.Header.Get("Authorization"), r.Header.Get("Accept")
			<-r.Context().Done()
			time.Sleep(time.Millisecond) // whoever does not wait is seen
			ended = true
			return nil, io.ErrUnexpectedEOF
		})
		net.set("m:9", serves(load(1, 0, 0)))
		s := settings(t, net, "a:1")
		s.Scrape.Metrics, s.Scrape.Bearer = "http://m:9/metrics", "k1"
		s.Checks.Readiness.Off = true
		c := newConfig(t, nil)
		c.watch(t, s)
		c.start(t)
		time.Sleep(1100 * time.Millisecond) // the first scrape, and half a question
		c.end(t)
		if key != "Bearer k1" || accept != "application/json" || !ended {
			t.Errorf("key %q, accept %q, ended %t", key, accept, ended)
		}
	})
}
