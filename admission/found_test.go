package admission

import (
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Headers are put back as they were: also those that are there to say that there is
// none, as a nil X-Forwarded-For tells the proxy to add no addresses.
func TestHeadersArePutBackAsTheyWere(t *testing.T) {
	was := http.Header{"A": {"1"}, "B": {"1", "2"}, "Empty": {}, "X-Forwarded-For": nil}
	h := was.Clone()
	f := copyOf(h)
	for range 2 {
		h.Add("A", "3")
		h["B"][0] = "changed"
		h.Set("X-Forwarded-For", "192.0.2.1")
		h.Set("C", "new")
		if f.put(h); !reflect.DeepEqual(h, was) {
			t.Errorf("put back %#v, want %#v", h, was)
		}
	}
}

// Asked again, the proxy writes variables of its own: a dial of the time before, which
// goes on when nobody waits for it, may be reading the old ones. Once that was one map,
// and a map that is read and written at once ends the process.
func TestARequestServedAgainHasVariablesOfItsOwn(t *testing.T) {
	vars := map[string]any{"a": 1}
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	r = r.WithContext(context.WithValue(r.Context(), caddyhttp.VarsCtxKey, vars))
	x := &exchange{request: r, call: new(llmlb.Call), writer: httptest.NewRecorder()}
	f := found{request: *r, url: *r.URL}
	f.restore(x)
	if got := caddyhttp.GetVar(x.request.Context(), "a"); got != 1 {
		t.Errorf("a is %v, want what it was", got)
	}
	caddyhttp.SetVar(x.request.Context(), "b", 2)
	if len(vars) != 1 {
		t.Error("what was set when it was served again is in the variables of the time before")
	}
}
