package admission

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// sharing is a handler with the options of sharing made ready, and its log.
func sharing(t *testing.T, h *Handler) (*Handler, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.DebugLevel)
	h.logger, h.doubted = zap.New(core), new(atomic.Bool)
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	t.Cleanup(cancel)
	if err := h.Validate(); err != nil {
		t.Fatal(err)
	}
	h.provisionTenants()
	if err := h.provisionClasses(ctx); err != nil {
		t.Fatal(err)
	}
	return h, logs
}

// arriving is a request as Caddy's server hands it on.
func arriving(trusted bool, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	repl := caddy.NewReplacer()
	for name := range r.Header {
		repl.Set("http.request.header."+name, r.Header.Get(name))
	}
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, map[string]any{
		caddyhttp.TrustedProxyVarKey: trusted, caddyhttp.ClientIPVarKey: "192.0.2.7",
	})
	return r.WithContext(ctx)
}

// The classes are served in the order in which they are written; what is not
// written is as the documentation says.
func TestClassesAndTheirDefaults(t *testing.T) {
	minute := new(caddy.Duration(time.Minute))
	for _, test := range []struct {
		name string
		h    Handler
		want []queue.Class
	}{
		{"none", Handler{}, []queue.Class{{Name: "interactive", MaxWait: 30 * time.Second}}},
		{
			"all with conditions",
			Handler{Classes: []Class{{Name: "background", Expression: "true"}, {Name: "night", Expression: "true", Share: new(0.2), Deadline: caddy.Duration(time.Hour)}}},
			[]queue.Class{
				{Name: "interactive", MaxWait: 30 * time.Second},
				{Name: "background", Rank: 1, Share: 0.05, Saturation: 1, MaxWait: 15 * time.Minute},
				{Name: "night", Rank: 2, Share: 0.2, MaxWait: 30 * time.Second, Deadline: time.Hour},
			},
		},
		{
			"the name is taken",
			Handler{Queue: &Queue{MaxWait: minute}, Classes: []Class{{Name: "interactive", Expression: "true"}, {Name: "bulk", Expression: "true", MaxWait: new(caddy.Duration(0))}}},
			[]queue.Class{
				{Name: "interactive", MaxWait: time.Minute},
				{Name: "bulk", Rank: 1, Share: 0.05},
				{Name: "default", Rank: 2, Share: 0.05, MaxWait: time.Minute},
			},
		},
		{
			"one without conditions",
			Handler{Classes: []Class{{Name: "a", Expression: "true"}, {Name: "b"}, {Name: "background", Expression: "true", Saturation: new(0.0), MaxWait: minute, Share: new(0.0)}}},
			[]queue.Class{
				{Name: "a", MaxWait: 30 * time.Second},
				{Name: "b", Rank: 1, Share: 0.05, MaxWait: 30 * time.Second},
				{Name: "background", Rank: 2, MaxWait: time.Minute},
			},
		},
		{
			"no queue",
			Handler{Queue: &Queue{Off: true}, Classes: []Class{{Name: "background", Expression: "true"}}},
			[]queue.Class{{Name: "interactive"}, {Name: "background", Rank: 1, Share: 0.05, Saturation: 1}},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, _ := sharing(t, &test.h)
			var got []queue.Class
			for _, c := range h.classes {
				got = append(got, *c)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestClassOfARequest(t *testing.T) {
	h, _ := sharing(t, &Handler{Classes: []Class{
		{Name: "edits", Header: "x-class", Value: "edits", Expression: `path('/v1/*')`},
		{Name: "rest"},
		{Name: "background", Header: "X-Class", Value: "background"},
		{Name: "night", Expression: `{http.request.header.X-User} == "night"`},
		{Name: "odd", Expression: `int({http.request.header.X-Number}) > 3`},
	}})
	for _, test := range []struct {
		name string
		r    *http.Request
		want string
	}{
		{"nothing said", arriving(true), "rest"},
		{"a header from a trusted proxy", arriving(true, "X-Class", "background"), "background"},
		{"header and expression", arriving(true, "X-Class", "edits"), "edits"},
		{"the header from anybody", arriving(false, "X-Class", "background"), "rest"},
		{"another value", arriving(true, "X-Class", "Background"), "rest"},
		{"the client's header in front of the proxy's", arriving(true, "X-Class", "edits", "X-Class", "background"), "rest"},
		{"an expression", arriving(false, "X-User", "night"), "night"},
		{"an expression that cannot be worked out", arriving(false, "X-Number", "many"), "rest"},
		{"the first that matches", arriving(true, "X-Class", "background", "X-User", "night"), "background"},
	} {
		if got := h.classify(test.r).Name; got != test.want {
			t.Errorf("%s: got %s, want %s", test.name, got, test.want)
		}
	}
	other := arriving(true, "X-Class", "edits")
	other.URL.Path = "/generate"
	if got := h.classify(other).Name; got != "rest" {
		t.Errorf("the header without the expression: got %s", got)
	}
}

// An operator who has forgotten trusted_proxies is told, and clients cannot
// fill the log with it.
func TestUntrustedClassHeaderIsToldOnce(t *testing.T) {
	h, logs := sharing(t, &Handler{Classes: []Class{{Name: "background", Header: "X-Class", Value: "background"}}})
	h.classify(arriving(false, "X-Class", "other"))
	if n := logs.Len(); n != 0 {
		t.Errorf("%d lines for a header that claims no class", n)
	}
	for range 3 {
		h.classify(arriving(false, "X-Class", "background"))
	}
	lines := logs.All()
	if len(lines) != 1 || lines[0].Level != zap.WarnLevel || !strings.Contains(lines[0].Message, "trusted_proxies") {
		t.Errorf("got %+v, want one warning", lines)
	}
}

// A mistake in an expression keeps the configuration from loading.
func TestBadClassExpression(t *testing.T) {
	for _, expression := range []string{`{http.auth.user.id} ==`, `1 + 1`, `nonsense(3)`} {
		h := Handler{Classes: []Class{{Name: "a", Expression: expression}}}
		ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
		err := h.provisionClasses(ctx)
		cancel()
		if err == nil || !strings.Contains(err.Error(), "class 'a': expression: ") {
			t.Errorf("%s: got %v", expression, err)
		}
	}
}

// A client may ask for less time than its class has, never for more.
func TestDeadline(t *testing.T) {
	arrival := time.Unix(1_700_000_000, 0)
	for _, test := range []struct {
		class time.Duration
		said  string
		want  time.Duration // 0 is none
	}{
		{0, "", 0},
		{8 * time.Second, "", 8 * time.Second},
		{8 * time.Second, "1.5", 1500 * time.Millisecond},
		{8 * time.Second, " 2 ", 2 * time.Second},
		{8 * time.Second, "500ms", 500 * time.Millisecond},
		{8 * time.Second, "1m", 8 * time.Second},
		{0, "1m", time.Minute},
		{8 * time.Second, "0", 8 * time.Second},
		{8 * time.Second, "-1", 8 * time.Second},
		{8 * time.Second, "-1s", 8 * time.Second},
		{8 * time.Second, "soon", 8 * time.Second},
		{8 * time.Second, "NaN", 8 * time.Second},
		{8 * time.Second, "Inf", 8 * time.Second},
		{8 * time.Second, "1e300", 8 * time.Second},
		{8 * time.Second, "1e-300", 1},
		{0, "1e300", 0},
		{0, "87600h", 0},
		{0, "0x1p-2", 250 * time.Millisecond},
		{8 * time.Second, strings.Repeat("1", 5000), 8 * time.Second},
	} {
		h := Handler{DeadlineHeader: "x-request-timeout"}
		r := arriving(false, "X-Request-Timeout", test.said)
		got := h.deadline(r, &queue.Class{Deadline: test.class}, arrival)
		if test.want == 0 && !got.IsZero() || test.want != 0 && !got.Equal(arrival.Add(test.want)) {
			t.Errorf("class %v, client %.20q: got %v after arrival, want %v", test.class, test.said, got.Sub(arrival), test.want)
		}
	}
	var off Handler
	if got := off.deadline(arriving(false, "X-Request-Timeout", "1"), &queue.Class{}, arrival); !got.IsZero() {
		t.Errorf("a header that nobody configured gives %v", got)
	}
}

// Two blocks in front of one pool have one queue, so that they must describe it
// alike. Which requests are of a class may differ.
func TestBlocksOfOnePoolAgreeOnItsQueue(t *testing.T) {
	class := func(name, expression string) object { return object{"name": name, "expression": expression} }
	night, day := class("night", "true"), class("day", "true")
	for _, test := range []struct {
		name          string
		first, second object
		ok            bool
	}{
		{"the same", object{"classes": []object{day, night}}, object{"classes": []object{day, night}}, true},
		{"other conditions", object{"classes": []object{day, night}}, object{"classes": []object{class("day", "false"), night}}, true},
		{"another order", object{"classes": []object{day, night}}, object{"classes": []object{night, day}}, false},
		{"another queue", object{}, object{"queue": object{"calls": 7}}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			block := func(o object) object {
				o["handler"] = "llm_admission"
				return o
			}
			apps, err := json.Marshal(object{"http": object{"servers": object{"main": object{
				"listen": []string{"127.0.0.1:0"},
				"routes": []object{{"handle": []object{block(test.first)}}, {"handle": []object{block(test.second)}}},
			}}}})
			if err != nil {
				t.Fatal(err)
			}
			cfg := &caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}}
			if err := json.Unmarshal(apps, &cfg.AppsRaw); err != nil {
				t.Fatal(err)
			}
			err = caddy.Validate(cfg)
			if (err == nil) != test.ok {
				t.Fatalf("got %v, want agreement: %v", err, test.ok)
			}
			if err != nil && !strings.Contains(err.Error(), "give them the same 'queue'") {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}
