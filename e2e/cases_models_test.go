package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// lister puts another answer to the gateway's own question for the list of models
// in front of a backend.
func lister(t *testing.T, list http.HandlerFunc) *backend {
	t.Helper()
	b := newBackendUnstarted(t)
	b.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" && r.UserAgent() == "caddy-llmlb" {
			b.mu.Lock()
			b.asked++
			b.mu.Unlock()
			list(w, r)
			return
		}
		b.ServeHTTP(w, r)
	}))
	t.Cleanup(b.Close)
	return b
}

// entries is a list of models with nothing but names.
func entries(ids ...string) string {
	list := make([]map[string]string, 0, len(ids))
	for _, id := range ids {
		list = append(list, map[string]string{"id": id, "object": "model"})
	}
	text, err := json.Marshal(map[string]any{"object": "list", "data": list})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// listing starts servers of which each lists the models that the text names.
func listing(t *testing.T, options string, lists ...string) (*gateway, []*backend) {
	t.Helper()
	var list []*backend
	var addrs []string
	for _, ids := range lists {
		b := newBackend(t)
		b.models = entries(strings.Fields(ids)...)
		list = append(list, b)
		addrs = append(addrs, b.addr())
	}
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s%s\n}\n", strings.Join(addrs, " "), fast, named(list...), options))
	for i := range lists {
		want := fmt.Sprint(slices.Sorted(slices.Values(strings.Fields(lists[i]))))
		eventually(t, "the list of models", func() bool { return fmt.Sprint(g.endpoint(nameOf(i)).Models) == want })
	}
	return g, list
}

func (g *gateway) get(path string) reply {
	g.t.Helper()
	res, err := http.Get(g.url + path)
	if err != nil {
		g.t.Fatal(err)
	}
	return read(g.t, res)
}

// ofModel is a chat body for the model, given as JSON.
func ofModel(model string) string {
	return `{"model":` + model + `,"messages":[{"role":"user","content":"hi"}]}`
}

// A model that no server has is the client's mistake, told at once and for good: a
// 503 would be tried again for ever. No server hears of it.
func TestAModelThatNobodyHasIs404(t *testing.T) {
	g, list := listing(t, "", "m", "n")
	long := strings.Repeat("very-long-", 20)
	for path, body := range map[string]string{
		"/v1/chat/completions":          ofModel(`"nope"`),
		"/v1/completions":               `{"model":"nope","prompt":"hi"}`,
		"/v1/messages":                  ofModel(`"nope"`),
		"/tokenize":                     `{"model":"nope","prompt":"hi"}`,
		"/v1/chat/completions?long":     ofModel(`"` + long + `"`),
		"/v1/chat/completions?stream":   `{"model":"nope","stream":true,"messages":[]}`,
		"/v1/chat/completions?in+space": ofModel(`" m "`),
	} {
		r := g.send(path, strings.NewReader(body))
		if r.status != http.StatusNotFound || !strings.Contains(r.body, "model_not_found") && !strings.Contains(r.body, "not_found_error") {
			t.Errorf("%s: status %d: %s", path, r.status, r.body)
		}
		if strings.Contains(r.body, long) || len(r.body) > 400 {
			t.Errorf("%s: the answer has the whole name: %s", path, r.body)
		}
	}
	if r := g.get("/v1/models/nope"); r.status != http.StatusNotFound || !strings.Contains(r.body, `"model_not_found"`) {
		t.Errorf("its entry: status %d: %s", r.status, r.body)
	}
	if a, b := list[0].count(), list[1].count(); a+b != 0 {
		t.Errorf("%d and %d requests reached the servers", a, b)
	}
	for _, model := range []string{"m", "n"} {
		if r := g.post(ofModel(`"` + model + `"`)); r.status != http.StatusOK {
			t.Errorf("%s: status %d: %s", model, r.status, r.body)
		}
	}
}

// As long as one server might have the model, or takes any name, a server answers.
func TestAModelThatAServerMightHaveIsAskedOf(t *testing.T) {
	for what, prepare := range map[string]func(*backend){
		"a server without a list": func(*backend) {},
		"an engine that takes any name": func(b *backend) {
			b.models = entries("n")
			b.shows(raw("text/plain", "sglang:num_running_reqs 0\nsglang:num_queue_reqs 0\n"))
		},
		"an engine that may load adapters": func(b *backend) {
			b.models = entries("n")
			b.shows(raw("text/plain", "vllm:num_requests_running 0\nvllm:lora_requests_info{max_lora=\"1\",running_lora_adapters=\"\",waiting_lora_adapters=\"\"} 1.7e9\n"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			a.models = entries("m")
			prepare(b)
			g := start(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b)))
			eventually(t, "the list of models", func() bool { return fmt.Sprint(g.endpoint("a").Models) == "[m]" })
			for _, s := range []*backend{a, b} {
				s.await("the question for a list", func() bool { return s.asked > 0 })
				s.seen()
			}
			if r := g.post(ofModel(`"nope"`)); r.status != http.StatusOK || a.count()+b.count() != 1 {
				t.Errorf("status %d, and %d requests reached a server: %s", r.status, a.count()+b.count(), r.body)
			}
		})
	}
}

// The pool's list has each model once with all its fields, and comes at once,
// though one server hangs and another sends a web page.
func TestListsAreMerged(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	a.models = `{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"vllm","max_model_len":8192,"foo":{"bar":[1,"<x>",12345678901234567890]}}]}`
	b.models = `{"object":"list","data":[{"id":"m","object":"model","max_model_len":4096,"own":true},{"id":"n","object":"model"}]}`
	hangs := lister(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	html := lister(t, raw("text/html", "<html>it works</html>"))
	all := []*backend{hangs, a, html, b}
	g := start(t, fmt.Sprintf("llm_proxy %s %s %s %s {\nmodel gpt-4o m\nmodel lost nowhere\n%s}\n", hangs.addr(), a.addr(), html.addr(), b.addr(), fast))
	const want = `{"object":"list","data":[` +
		`{"id":"m","object":"model","created":1,"owned_by":"vllm","max_model_len":4096,"foo":{"bar":[1,"<x>",12345678901234567890]},"own":true},` +
		`{"id":"n","object":"model"},` +
		`{"id":"gpt-4o","object":"model","created":1,"owned_by":"vllm","max_model_len":4096,"foo":{"bar":[1,"<x>",12345678901234567890]},"own":true,"root":"m"}]}`
	var r reply
	eventually(t, "the lists", func() bool {
		begun := time.Now()
		r = g.get("/v1/models")
		if took := time.Since(begun); took > time.Second {
			t.Fatalf("the list took %v", took)
		}
		return strings.Contains(r.body, `"n"`) && strings.Contains(r.body, `"foo"`)
	})
	if r.status != http.StatusOK || r.body != want || r.header.Get("Content-Type") != "application/json" {
		t.Errorf("status %d, %v: %s\nwant %s", r.status, r.header, r.body, want)
	}
	before := 0
	for _, s := range all {
		before += s.count()
	}
	res, err := http.Head(g.url + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	if r := read(t, res); r.status != http.StatusOK || r.header.Get("Content-Length") != strconv.Itoa(len(want)) || r.body != "" {
		t.Errorf("HEAD: status %d, %v: %q", r.status, r.header, r.body)
	}
	if r := g.get("/v1/models/gpt-4o"); r.status != http.StatusOK || !strings.HasPrefix(r.body, `{"id":"gpt-4o","object":"model","created":1,`) {
		t.Errorf("the alias: status %d: %s", r.status, r.body)
	}
	after := 0
	for _, s := range all {
		after += s.count()
	}
	if after != before {
		t.Errorf("%d requests for lists reached the servers", after-before)
	}
	for _, s := range []*backend{a, b} {
		s.goDown()
	}
	eventually(t, "two servers to be seen as down", func() bool {
		down := 0
		for _, e := range g.pools()[0].Endpoints {
			if e.State == "down" {
				down++
			}
		}
		return down == 2
	})
	if r := g.get("/v1/models"); r.body != want {
		t.Errorf("with dead servers the list is %s", r.body)
	}
}

// Where nobody's list is known, a server answers for itself, as it would without
// the gateway.
func TestAListThatIsNotKnownComesFromAServer(t *testing.T) {
	a := newBackend(t)
	const own = `{"object":"list","data":[{"id":"own"}]}`
	a.answers(func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, own)
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\nengine none\n}\n", a.addr()))
	if r := g.get("/v1/models"); r.status != http.StatusOK || r.body != own {
		t.Errorf("status %d: %s", r.status, r.body)
	}
}

// An alias changes the outermost model's value alone, whichever way the body comes.
func TestAnAliasChangesTheModelAlone(t *testing.T) {
	const body = "{ \"messages\" : [{\"role\":\"user\",\"content\":\"say \\\"model\\\":\\\"gpt-4o\\\"\"}],\r\n\t\"metadata\":{\"model\":\"gpt-4o\"}," +
		"\"seed\":12345678901234567890, \"mod\\u0065l\"\t:  \"gpt-4o\" , \"t\":1.0e-01}"
	want := strings.Replace(body, `:  "gpt-4o"`, `:  "m"`, 1)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	io.WriteString(z, body)
	z.Close()

	g, list := listing(t, "model gpt-4o m", "m")
	type arrival struct {
		body, encoding string
		length         int64
		chunked        bool
	}
	var mu sync.Mutex
	var last arrival
	list[0].answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		mu.Lock()
		last = arrival{string(body), r.Header.Get("Content-Encoding"), r.ContentLength, len(r.TransferEncoding) > 0}
		mu.Unlock()
		answer(w, r, body)
	})
	for what, send := range map[string]struct {
		body     io.Reader
		encoding string
	}{
		"plain":            {strings.NewReader(body), ""},
		"chunked":          {io.MultiReader(strings.NewReader(body)), ""},
		"gzip":             {bytes.NewReader(packed.Bytes()), "gzip"},
		"gzip and chunked": {io.MultiReader(bytes.NewReader(packed.Bytes())), "gzip"},
	} {
		req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", send.body)
		if err != nil {
			t.Fatal(err)
		}
		if send.encoding != "" {
			req.Header.Set("Content-Encoding", send.encoding)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r := read(t, res)
		mu.Lock()
		got := last
		mu.Unlock()
		if r.status != http.StatusOK || got != (arrival{want, "", int64(len(want)), false}) {
			t.Errorf("%s: status %d, and the server got %+v\nwant %s", what, r.status, got, want)
		}
	}
	req, _ := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
	req.Header.Set("Content-Digest", "sha-256=:x:")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if r := read(t, res); r.status != http.StatusBadRequest || !strings.Contains(r.body, "Content-Digest") {
		t.Errorf("with a digest: status %d: %s", r.status, r.body)
	}
	if r := g.send("/tokenize", strings.NewReader(`{"model":"gpt-4o","prompt":"x"}`)); r.status != http.StatusOK || string(list[0].lastBody()) != `{"model":"m","prompt":"x"}` {
		t.Errorf("to count tokens: status %d, sent as %s", r.status, list[0].lastBody())
	}
}

// Whoever asks for an alias finds what those left in the cache who asked for the
// model itself.
func TestAnAliasSharesTheModelsCache(t *testing.T) {
	g, _ := listing(t, "model gpt-4o m", "m", "m", "m")
	system := prose("house rules", 8000)
	home := g.post(chat(false, system, "first")).endpoint()
	for i := range 6 {
		body := strings.Replace(chat(false, system, fmt.Sprint("question ", i)), `"model":"m"`, `"model":"gpt-4o"`, 1)
		if r := g.post(body); r.endpoint() != home || r.decision() != "warm" {
			t.Errorf("question %d went to %s (%s), want %s", i, r.endpoint(), r.decision(), home)
		}
	}
}

// Whatever is listed can be asked for, and reaches a server that has it.
func TestWhatIsListedIsServed(t *testing.T) {
	long := strings.Repeat("l", 200)
	g, list := listing(t, "model gpt-4o org/name", "org/name a:b", "Ünï "+long)
	var models struct{ Data []struct{ ID string } }
	if r := g.get("/v1/models"); json.Unmarshal([]byte(r.body), &models) != nil || len(models.Data) != 5 {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	at := map[string]string{"org/name": "a", "a:b": "a", "gpt-4o": "a", "Ünï": "b", long: "b"}
	for _, m := range models.Data {
		id, _ := json.Marshal(m.ID)
		if r := g.post(ofModel(string(id))); r.status != http.StatusOK || r.endpoint() != at[m.ID] {
			t.Errorf("%.20s: status %d from %q, want %s: %s", m.ID, r.status, r.endpoint(), at[m.ID], r.body)
		}
	}
	if r := g.get("/v1/models/org%2Fname"); r.status != http.StatusOK {
		t.Errorf("its entry: status %d: %s", r.status, r.body)
	}
	list[0].mu.Lock()
	defer list[0].mu.Unlock()
	if got := list[0].paths[len(list[0].paths)-1]; got != "GET /v1/models/org%2Fname" {
		t.Errorf("the server was asked %s", got)
	}
}

// A model that is none is the engine's to judge, with one exception that is told: a
// name with spaces around it is another name.
func TestModelsThatAreNone(t *testing.T) {
	g, list := listing(t, "model gpt-4o m", "m")
	for i, model := range []string{"123", "null", `""`, "[]", "{}", "true"} {
		body := ofModel(model)
		if r := g.post(body); r.status != http.StatusOK || string(list[0].lastBody()) != body || list[0].count() != i+1 {
			t.Errorf("model %s: status %d, and the server got %s", model, r.status, list[0].lastBody())
		}
	}
	if r := g.post(`{"messages":[]}`); r.status != http.StatusOK {
		t.Errorf("no model: status %d", r.status)
	}
	before := list[0].count()
	for _, model := range []string{`" m "`, `"m\n"`, `" gpt-4o"`, `"M"`} {
		r := g.post(ofModel(model))
		if reached := list[0].count() - before; r.status == http.StatusOK && reached == 1 && string(list[0].lastBody()) == ofModel(model) {
			before++ // another name for the engine too
		} else if r.status != http.StatusNotFound || reached != 0 {
			t.Errorf("model %s: status %d, %d requests reached the server", model, r.status, reached)
		}
	}
}
