package health

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// admin is the module's part of Caddy's admin API. Caddy provisions it before
// any app, so it finds the pools themselves and not the app.
type admin struct{}

// CaddyModule returns the Caddy module information.
func (admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.llmlb", New: func() caddy.Module { return new(admin) }}
}

// Routes implements caddy.AdminRouter.
func (a admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: "/llmlb/pools", Handler: caddy.AdminHandlerFunc(a.pools)},
		{Pattern: "/llmlb/", Handler: caddy.AdminHandlerFunc(a.unknown)},
	}
}

// pools answers with every living pool: those of running configurations, and
// those whose last streams have not ended.
func (admin) pools(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed; have GET")}
	}
	now := time.Now()
	all := []llmlb.PoolStatus{} // no pool is an empty list, not null
	llmlb.Pools(func(p *llmlb.Pool) { all = append(all, p.Status(now)) })
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(all)
}

func (admin) unknown(http.ResponseWriter, *http.Request) error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no such resource; have /llmlb/pools")}
}

// Interface guards
var _ caddy.AdminRouter = admin{}
