package admission

import (
	"reflect"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// warnUntrusting tells the operator, when the configuration is loaded, of a class
// that no request will ever get: its header counts only from trusted proxies, and
// the server has none.
func (h *Handler) warnUntrusting(ctx caddy.Context) {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if !ok || server == nil || trustsSomebody(server) {
		return
	}
	for i := range h.sorts {
		if s := &h.sorts[i]; s.header != "" {
			h.logger.Warn("a class's header never counts: the server has no trusted_proxies",
				zap.String("class", s.class.Name), zap.String("header", s.header), zap.String("server", server.Name()))
		}
	}
}

// trustsSomebody reports whether there are clients from which the server takes
// headers for true, as far as that can be told. Where it cannot, it says yes.
func trustsSomebody(s *caddyhttp.Server) bool {
	if s.TrustedProxiesUnix || len(s.TrustedProxiesRaw) > 0 {
		return true
	}
	// Caddy has loaded the source by now, emptied what it was written in, and keeps
	// it to itself. To ask whether there is one is all that reflection allows, and
	// all that is wanted.
	source := reflect.ValueOf(s).Elem().FieldByName("trustedProxies")
	return source.Kind() != reflect.Interface || !source.IsNil()
}
