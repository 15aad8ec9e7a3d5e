package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Every path of the engines' APIs is served by the server that is well, and what
// makes an engine work is counted: in series that do not grow with what clients
// write.
func TestEveryPathIsServedAndCounted(t *testing.T) {
	g, a, b := pair(t, "")
	a.goDown()
	eventually(t, "the server to be seen as down", func() bool { return g.endpoint("a").State == "down" })
	counted := func() (requests, series int) {
		families := g.families()
		for name, f := range families {
			if strings.HasPrefix(name, "caddy_llmlb_") {
				series += len(f.GetMetric())
			}
		}
		return int(g.sum("caddy_llmlb_requests_total")), series
	}
	if r := g.post(distinct(0)); r.status != http.StatusOK {
		t.Fatalf("status %d: %s", r.status, r.body)
	}
	g.idle(t)
	before, series := counted()
	generating := 0
	for _, tc := range []struct {
		path, body string
		generates  bool
	}{
		{"/v1/embeddings", `{"model":"m","input":["a","b"]}`, true},
		{"/v1/responses", `{"model":"m","input":"hi"}`, true},
		{"/v1/messages", `{"model":"m","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`, true},
		{"/v1/rerank", `{"model":"m","query":"a","documents":["b","c"]}`, true},
		{"/v1/completions", `{"model":"m","prompt":"hi"}`, true},
		{"/score", `{"model":"m","text_1":"a","text_2":"b"}`, true},
		{"/api/chat", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, true},
		{"/generate", `{"inputs":"hi"}`, true},
		{"/tokenize", `{"model":"m","prompt":"hi"}`, false},
		{"/v1/messages/count_tokens", `{"model":"m","messages":[]}`, false},
	} {
		hits := b.count()
		r := g.send(tc.path+"?q="+strings.Repeat("x", generating), strings.NewReader(tc.body))
		if r.status != http.StatusOK || b.count() != hits+1 || string(b.lastBody()) != tc.body {
			t.Errorf("%s: status %d: %s; the server got %q", tc.path, r.status, r.body, b.lastBody())
		}
		if tc.generates {
			generating++
		}
	}
	g.idle(t)
	var requests, more int
	eventually(t, "all of them to be counted", func() bool {
		requests, more = counted()
		return requests-before >= generating
	})
	// A new reason of a decision or another outcome may add a series, paths none.
	if more > series+4 {
		t.Errorf("%d series of metrics, %d before", more, series)
	}
	for _, f := range g.families() {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if strings.Contains(l.GetValue(), "rerank") || strings.Contains(l.GetValue(), "xx") {
					t.Errorf("%s has the label %s=%q", f.GetName(), l.GetName(), l.GetValue())
				}
			}
		}
	}
	if n := a.count(); n != 0 {
		t.Errorf("the server that is down got %d requests", n)
	}
}

// Sixty requests with one long beginning are open at once at three servers of
// which one holds it. That one gets more than the others, for it has less to
// compute, but a good part goes to others. As long as they come one at a time, all
// go where it is. How evenly a burst spreads where speeds are known to the
// millisecond is tested in virtual time: here a machine that stalls makes any of
// the three look slow, and it is right to avoid that one.
func TestAHotPrefixDoesNotFillOneServer(t *testing.T) {
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	var s strings.Builder
	for i, b := range list {
		fmt.Fprintf(&s, "endpoint %s {\nname %s\nmax_concurrent 40\n}\n", b.addr(), nameOf(i))
	}
	g := start(t, fmt.Sprintf("llm_proxy %s %s %s {\n%s%s%s}\n", list[0].addr(), list[1].addr(), list[2].addr(), fast, patient, s.String()))
	hold := make(chan struct{})
	for _, b := range list {
		var engine sync.Mutex
		b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			engine.Lock()
			time.Sleep(25 * time.Millisecond) // one prompt after the other, each as fast
			engine.Unlock()
			w.Header().Set("Content-Type", eventStream)
			for i, e := range answerEvents {
				if i == 2 && strings.Contains(string(body), "burst") && !waits(r, hold) {
					return
				}
				send(w, e)
			}
		})
	}
	hot := prose("the one that all have", 4096)
	homes := map[string]int{}
	for i := range 10 {
		r := g.post(chat(true, "", hot+fmt.Sprint(i)))
		if homes[r.endpoint()]++; r.status != http.StatusOK {
			t.Errorf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
	if most := slices.Max(slices.Collect(maps.Values(homes))); most < 8 { // a machine that stalls makes a server look slow
		t.Errorf("ten requests, one at a time, went to %v, want all to one", homes)
	}
	g.idle(t)
	before := []int{list[0].count(), list[1].count(), list[2].count()}
	var all []<-chan reply
	for i := range 60 {
		all = append(all, g.posts(t, http.DefaultClient, chat(true, "", hot+fmt.Sprint("burst ", i))))
	}
	eventually(t, "all sixty to be at the servers", func() bool { return hits(list...) == 70 })
	var split []int
	for i, b := range list {
		split = append(split, b.count()-before[i])
	}
	close(hold)
	allServed(t, all)
	if slices.Max(split) > 45 {
		t.Errorf("split %v, want at most 45 at one, and mostly 24 at the one that holds it", split)
	}
}

// A body in which nothing of a prompt is found goes by load, at once, and whole:
// to the server that has less to do. The operator is told at most once of each
// such kind, not with every request.
func TestBodiesWithoutAPromptGoByLoad(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	file := filepath.Join(t.TempDir(), "log")
	site := fmt.Sprintf("llm_proxy %s %s {\n%s%s}\n", a.addr(), b.addr(), fast, named(a, b))
	g := start(t, site)
	g.configured(t, site, func(config map[string]any) {
		config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
			"writer": map[string]any{"output": "file", "filename": file}, "level": "WARN",
		}}}
	})
	onlyFree(b, a, b)
	form := func(i int) string {
		return fmt.Sprintf("--x\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f\"\r\n\r\n%d\r\n--x--\r\n", i)
	}
	const each = 20
	sent := 0
	for name, tc := range map[string]struct {
		path, kind string
		body       func(i int) string
	}{
		"a form":              {"/v1/audio/transcriptions", "multipart/form-data; boundary=x", form},
		"a form for a chat":   {chatPath, "multipart/form-data; boundary=x", form},
		"a model and nothing": {chatPath, "application/json", func(i int) string { return fmt.Sprintf(`{"model":"m","seed":%d}`, i) }},
		"cut before its messages": {chatPath, "application/json", func(i int) string {
			return fmt.Sprintf(`{"model":"m","seed":%d,"user":"%s`, i, strings.Repeat("x", 600))
		}},
		"messages far behind": {chatPath, "application/json", func(i int) string {
			return fmt.Sprintf(`{"model":"m","user":"%s","messages":[{"role":"user","content":"%d"}]}`, strings.Repeat("x", 1<<20), i)
		}},
		"nothing at all": {"/v1/completions", "application/json", func(int) string { return "" }},
	} {
		for i := range each {
			text := tc.body(i)
			res, err := http.Post(g.url+tc.path, tc.kind, strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			sent++
			if r := read(t, res); r.status != http.StatusOK || string(b.lastBody()) != text {
				t.Errorf("%s: status %d: %s", name, r.status, r.body)
			}
		}
	}
	if n := b.count(); n != sent {
		t.Errorf("%d of %d went to the server that has room", n, sent)
	}
	log, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if n := strings.Count(string(log), "\n"); n > 6 {
		t.Errorf("%d warnings for %d requests, want one of a kind at most: %.2000s", n, sent, log)
	}
}
