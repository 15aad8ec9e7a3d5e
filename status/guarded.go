package status

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// guarded reports whether an authentication is seen to stand before the handler
// that is being provisioned, the last of the modules given.
//
// Caddy provisions routes from first to last, so at this moment everything
// before the handler has been provisioned, its own routes are those whose
// handlers are still raw, and nothing behind it counts. Seen are the handler
// "authentication" (basic_auth and those that others provide for it) and what
// forward_auth expands to, in the handler's own route or an earlier one that
// matches everything or the same. Not seen are client certificates, remote_ip
// matchers, other modules' handlers, and whatever is in front of Caddy.
func guarded(ancestors []caddy.Module) bool {
	for i, m := range ancestors {
		if i+1 == len(ancestors) {
			break
		}
		below := handlerName(ancestors[i+1])
		switch m := m.(type) {
		case *caddyhttp.App:
			// Which server it is cannot be told, so all those count that may be.
			all, some := true, false
			for _, s := range m.Servers {
				if found, ok := before(s.Routes, below); found {
					some, all = true, all && ok
				}
			}
			if some && all {
				return true
			}
		case *caddyhttp.Subroute:
			if _, ok := before(m.Routes, below); ok {
				return true
			}
		}
	}
	return false
}

func handlerName(m caddy.Module) string { return m.CaddyModule().ID.Name() }

// before looks for an authentication before the first handler of that name in
// the route that is being provisioned. found is false when no such handler is.
func before(routes caddyhttp.RouteList, name string) (found, ok bool) {
	current := slices.IndexFunc(routes, func(r caddyhttp.Route) bool { return r.HandlersRaw != nil && r.Handlers == nil })
	if current < 0 {
		return false, false
	}
	own := routes[current]
	for _, raw := range own.HandlersRaw {
		n := kind(raw)
		if n == name {
			found = true
			break
		}
		ok = ok || n == authentication
	}
	if !found || ok {
		return found, ok
	}
	for _, r := range routes[:current] {
		if r.Group != "" || len(r.MatcherSets) > 0 && !reflect.DeepEqual(r.MatcherSets, own.MatcherSets) {
			continue
		}
		for _, h := range r.Handlers {
			if m, is := h.(caddy.Module); is && (handlerName(m) == authentication || forwards(m)) {
				return true, true
			}
		}
	}
	return true, false
}

// authentication is the name of Caddy's handler for it.
const authentication = "authentication"

// kind is the name of a handler from its configuration. What forward_auth
// expands to counts as an authentication.
func kind(raw json.RawMessage) string {
	var h struct {
		Handler string `json:"handler"`
		asked
	}
	if json.Unmarshal(raw, &h) != nil {
		return ""
	}
	if h.Handler == "reverse_proxy" && h.asks() {
		return authentication
	}
	return h.Handler
}

// forwards reports whether a provisioned handler is what forward_auth expands to.
func forwards(m caddy.Module) bool {
	if handlerName(m) != "reverse_proxy" {
		return false
	}
	raw, err := json.Marshal(m)
	var a asked
	return err == nil && json.Unmarshal(raw, &a) == nil && a.asks()
}

// asked is what is particular about the reverse_proxy of forward_auth: it asks
// with a GET of another URI, and goes on where the answer is 2xx.
type asked struct {
	Rewrite *struct {
		Method string `json:"method"`
	} `json:"rewrite"`
	HandleResponse []struct {
		Match *struct {
			StatusCode []int `json:"status_code"`
		} `json:"match"`
	} `json:"handle_response"`
}

func (a *asked) asks() bool {
	if a.Rewrite == nil || a.Rewrite.Method != "GET" {
		return false
	}
	for _, h := range a.HandleResponse {
		if h.Match != nil && slices.Equal(h.Match.StatusCode, []int{2}) {
			return true
		}
	}
	return false
}
