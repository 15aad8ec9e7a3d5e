package admission

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// A class whose header nobody may send looks as if it worked. Its operator reads
// that it does not when the configuration is loaded, and not only when the first
// request has come that should have had it.
func TestClassHeaderThatNobodyMaySendIsToldAtTheStart(t *testing.T) {
	byHeader := Class{Name: "background", Header: "x-class", Value: "background"}
	for _, test := range []struct {
		name    string
		server  *caddyhttp.Server // nil where none can be seen
		classes []Class
		want    int
	}{
		{"nobody is trusted", new(caddyhttp.Server), []Class{byHeader}, 1},
		{"one line for each such class", new(caddyhttp.Server), []Class{byHeader, {Name: "night", Expression: "true"}, {Name: "rest"}, {Name: "bulk", Header: "X-Class", Value: "bulk"}}, 2},
		{"no class by a header", new(caddyhttp.Server), []Class{{Name: "background", Expression: "true"}, {Name: "rest"}}, 0},
		{"a local proxy is trusted", &caddyhttp.Server{TrustedProxiesUnix: true}, []Class{byHeader}, 0},
		{"the source is not loaded yet", &caddyhttp.Server{TrustedProxiesRaw: json.RawMessage(`{"source":"static"}`)}, []Class{byHeader}, 0},
		{"no server", nil, []Class{byHeader}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, logs := sharing(t, &Handler{Classes: test.classes})
			parent := t.Context()
			if test.server != nil {
				parent = context.WithValue(parent, caddyhttp.ServerCtxKey, test.server)
			}
			ctx, cancel := caddy.NewContext(caddy.Context{Context: parent})
			defer cancel()
			h.warnUntrusting(ctx)
			lines := logs.FilterMessageSnippet("trusted_proxies").All()
			if len(lines) != test.want {
				t.Fatalf("%d lines, want %d: %+v", len(lines), test.want, lines)
			}
			if test.want > 0 {
				if fields := lines[0].ContextMap(); lines[0].Level != zap.WarnLevel || fields["class"] != "background" || fields["header"] != "X-Class" {
					t.Errorf("%v: %v, want a warning with the class and its header", lines[0].Level, fields)
				}
			}
		})
	}
}
