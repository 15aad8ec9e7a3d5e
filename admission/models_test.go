package admission

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// lister is a stage whose servers a and b have told what they serve, and check
// names.
func lister(t *testing.T, h *Handler) *stage {
	t.Helper()
	s := newStage(t, h, "a", "b")
	tell := func(name string, list ...llmlb.Model) {
		sig := llmlb.NoSignals(time.Now())
		sig.Running, sig.Waiting, sig.ChecksModels = 0, 0, true
		s.endpoint(name).ObserveSignals(sig)
		s.endpoint(name).ObserveModels(time.Now(), list)
	}
	tell("a", llmlb.Model{ID: "m", Raw: []byte(`{"id":"m","object":"model","max_model_len":8192,"root":"/models/m","foo":"<x>"}`)})
	tell("b", llmlb.Model{ID: "m", Raw: []byte(`{"id":"m","bar":12345678901234567890}`)}, llmlb.Model{ID: "org/n"})
	return s
}

func (s *stage) about(method, target, body string) (*http.Request, *llmlb.Call) {
	c := llmlb.NewCall(s.pool, s.settings, time.Now())
	c.SetBody([]byte(body))
	r := httptest.NewRequest(method, target, nil)
	put(r, c)
	return r, c
}

// unbound is a share of memory that has room for everything.
func unbound() *share { return &share{of: new(bodies), limit: 1 << 40} }

// A client sees every model that the pool has, and every alias that it may use,
// once and in full.
func TestListOfModels(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m", "big": "org/n", "lost": "nobody's", "org/n": "m"}}
	s := lister(t, h)
	const m = `"object":"model","max_model_len":8192,"root":"/models/m","foo":"<x>","bar":12345678901234567890}`
	const n = `{"id":"%s","object":"model"%s}`
	alias := strings.Replace(m, `"root":"/models/m",`, "", 1)
	want := `{"object":"list","data":[{"id":"m",` + m + `,` + fmt.Sprintf(n, "big", `,"root":"org/n"`) +
		`,{"id":"gpt-4o",` + strings.Replace(alias, "}", `,"root":"m"}`, 1) + `,{"id":"org/n",` + strings.Replace(alias, "}", `,"root":"m"}`, 1) + `]}`
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		r, c := s.about(method, "/v1/models", "")
		answer, f := h.models(r, c, unbound())
		if f != nil || string(answer) != want {
			t.Fatalf("%s: %+v %s\nwant %s", method, f, answer, want)
		}
		w := httptest.NewRecorder()
		writeModels(w, r, answer)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Content-Length") != strconv.Itoa(len(want)) {
			t.Errorf("%s: %d %v", method, w.Code, w.Header())
		}
		if got := w.Body.String(); method == http.MethodHead && got != "" || method == http.MethodGet && got != want {
			t.Errorf("%s: body %q", method, got)
		}
	}
	if !json.Valid([]byte(want)) {
		t.Error("the list is no JSON")
	}
}

// Where nothing is known a server answers, and where it lists nothing, that is the
// answer.
func TestListOfUnknownModels(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m"}}
	s := newStage(t, h, "a")
	r, c := s.about(http.MethodGet, "/v1/models", "")
	if answer, f := h.models(r, c, unbound()); answer != nil || f != nil {
		t.Errorf("before any list the answer is %s %+v", answer, f)
	}
	s.endpoint("a").ObserveModels(time.Now(), nil)
	if answer, _ := h.models(r, c, unbound()); string(answer) != `{"object":"list","data":[]}` {
		t.Errorf("an empty list is %s", answer)
	}
}

// A model's own entry comes from a server that has the model, an alias's from the
// list, and one that nobody has from nowhere.
func TestOneModel(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m", "team/coder": "org/n", "lost": "org/away"}}
	for _, test := range []struct {
		method, target string
		answer         string // "" for a server's
		model          string // the Call's
		refused        int
		sent           string // the path, when it is another one
	}{
		{"GET", "/v1/models/m", "", "m", 0, ""},
		{"HEAD", "/v1/models/m", "", "m", 0, ""},
		{"GET", "/v1/models/org%2Fn", "", "org/n", 0, ""},
		{"GET", "/v1/models/org/n", "", "org/n", 0, ""},
		{"GET", "/v1/models/team%2Fcoder", `{"id":"team/coder","object":"model","root":"org/n"}`, "team/coder", 0, ""},
		{"HEAD", "/v1/models/team/coder", `{"id":"team/coder","object":"model","root":"org/n"}`, "team/coder", 0, ""},
		{"GET", "/v1/models/nope", "", "nope", 404, ""},
		{"GET", "/v1/models/lost", "", "org/away", 404, "/v1/models/org%2Faway"},
		{"OPTIONS", "/v1/models/nope", "", "", 0, ""},
		{"GET", "/health", "", "", 0, ""},
	} {
		s := lister(t, h)
		r, c := s.about(test.method, test.target, "")
		answer, f := h.models(r, c, unbound())
		status := 0
		if f != nil {
			status = f.status
		}
		sent := test.sent
		if sent == "" {
			sent = test.target
		}
		if string(answer) != test.answer || c.Model != test.model || status != test.refused || r.URL.EscapedPath() != sent {
			t.Errorf("%s %s: answer %s, model %q, refused %d, sent as %s", test.method, test.target, answer, c.Model, status, r.URL.EscapedPath())
		}
	}
}

// A model that no server has is refused with a message of a sane length.
func TestUnknownModelIsRefused(t *testing.T) {
	h := &Handler{}
	s := lister(t, h)
	for model, message := range map[string]string{
		"nope":                         `No inference server has the model "nope". GET /v1/models lists those there are.`,
		" m ":                          `No inference server has the model " m ". GET /v1/models lists those there are.`,
		"M":                            `No inference server has the model "M". GET /v1/models lists those there are.`,
		`a"b\`:                         `No inference server has the model "a\"b\\". GET /v1/models lists those there are.`,
		strings.Repeat("ü", 100):       `No inference server has the model "` + strings.Repeat("ü", 64) + `…". GET /v1/models lists those there are.`,
		"m":                            "",
		"org/n":                        "",
		"":                             "",
		"secret\nprompt":               "",
		strings.Repeat("long ", 5_000): "",
	} {
		_, c := s.about(http.MethodPost, chatPath, "")
		c.Model = model
		f := h.unknownModel(c)
		switch {
		case message == "" && f != nil:
			t.Errorf("%.40q is refused: %+v", model, f)
		case message != "" && (f == nil || f.status != http.StatusNotFound || f.code != "model_not_found" || f.param != "model" || f.message != message):
			t.Errorf("%.40q: %+v, want %s", model, f, message)
		}
	}
}

// A model's count of tokens is asked of a server that has the model, under the name
// by which that knows it.
func TestModelsOfWhatPasses(t *testing.T) {
	h := &Handler{Models: map[string]string{"gpt-4o": "m"}}
	for _, test := range []struct{ path, body, model, sent string }{
		{"/tokenize", `{"model":"m","prompt":"x"}`, "m", ""},
		{"/tokenize", `{"model":"gpt-4o","prompt":"x"}`, "m", `{"model":"m","prompt":"x"}`},
		{"/v1/messages/count_tokens", `{"model":"gpt-4o"}`, "m", `{"model":"m"}`},
		{"/tokenize", `{"prompt":"x"}`, "", ""},
		{"/tokenize", `{"model":"gpt-4o"`, "", ""},
		{"/opened", `{"model":"gpt-4o"}`, "", ""},
	} {
		s := lister(t, h)
		r, c := s.about(http.MethodPost, test.path, test.body)
		answer, f := h.models(r, c, unbound())
		sent := test.sent
		if sent == "" {
			sent = test.body
		}
		if answer != nil || f != nil || c.Model != test.model || string(c.Body) != sent || sentBody(t, r) != sent {
			t.Errorf("%s %s: %s %+v, model %q, sent %s", test.path, test.body, answer, f, c.Model, c.Body)
		}
	}
}

// Whatever servers and operators call their models, the list is JSON that has each
// id once.
func FuzzList(f *testing.F) {
	f.Add("m", "gpt-4o", "x", `{"a":1}`)
	f.Add("\xff", "\"", "m", "null")
	f.Fuzz(func(t *testing.T, id, alias, field, value string) {
		if !json.Valid([]byte(value)) || !utf8.ValidString(id) || !utf8.ValidString(alias) {
			return
		}
		list := []llmlb.MergedModel{{ID: id, Fields: []llmlb.ModelField{{Name: field, Value: []byte(value)}}}, {ID: id + "2"}}
		var got struct{ Data []struct{ ID, Root string } }
		text := appendList(nil, list, map[string]string{alias: id, alias + "2": "nobody's"})
		if field == "id" || field == "root" || strings.EqualFold(field, "id") || strings.EqualFold(field, "root") {
			return // not what a merged model has, or not a string
		}
		if err := json.Unmarshal(text, &got); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		var ids []string
		for _, m := range got.Data {
			ids = append(ids, m.ID)
		}
		slices.Sort(ids)
		if len(slices.Compact(ids)) != len(got.Data) {
			t.Fatalf("%s has an id twice", text)
		}
	})
}
