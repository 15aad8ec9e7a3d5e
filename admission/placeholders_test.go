package admission

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An error route may lead a request on to another pool. What the log then has is of
// the pool that served it.
func TestPlaceholdersTellOfTheLastPoolAsked(t *testing.T) {
	repl := caddy.NewReplacer()
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil)
	ctx := context.WithValue(r.Context(), caddy.ReplacerCtxKey, repl)
	ctx = context.WithValue(ctx, caddyhttp.VarsCtxKey, make(map[string]any))
	r = r.WithContext(ctx)
	for _, model := range []string{"first", "second"} {
		x := &exchange{request: r, call: &llmlb.Call{Features: llmlb.Features{Model: model}}}
		x.publish()
		if got, _ := repl.GetString("llm.model"); got != model {
			t.Errorf("{llm.model} is %q while the %s pool serves", got, model)
		}
		x.call.Refusal = "queue_full" // what comes later is told too
		if got, _ := repl.GetString("llm.error"); got != "queue_full" {
			t.Errorf("{llm.error} is %q", got)
		}
	}
	if _, known := repl.Get("llm.endpoint"); known {
		t.Error("an endpoint is told of before there is one")
	}
}

// Any placeholder can print a variable, and what ours leads to has the prompt.
func TestVariablesDoNotPrintThePrompt(t *testing.T) {
	v := &told{&exchange{call: &llmlb.Call{Body: []byte("secret")}}}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if got := fmt.Sprintf(format, v); got != "call" {
			t.Errorf("%s prints %q", format, got)
		}
	}
}
