package health

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
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
		{Pattern: poolsPrefix, Handler: caddy.AdminHandlerFunc(a.one)},
		{Pattern: "/llmlb/explain", Handler: caddy.AdminHandlerFunc(a.explain)},
		{Pattern: "/llmlb/", Handler: caddy.AdminHandlerFunc(a.unknown)},
	}
}

// pools answers with every living pool: those of running configurations, and
// those whose last streams have not ended.
func (admin) pools(w http.ResponseWriter, r *http.Request) error {
	if err := onlyGet(w, r); err != nil {
		return err
	}
	if r.URL.RawQuery != "" {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: errors.New("no parameters are known here; all pools are listed")}
	}
	now := time.Now()
	all := []llmlb.PoolStatus{} // no pool is an empty list, not null
	llmlb.Pools(func(p *llmlb.Pool) { all = append(all, p.Status(now)) })
	return writeJSON(w, all)
}

// explain answers with the last choices, the newest first: of all living pools,
// of one, or only those that fell on one endpoint.
//
//	GET /llmlb/explain[?pool=<name>][&endpoint=<name or address>][&limit=<1 to 64>]
func (admin) explain(w http.ResponseWriter, r *http.Request) error {
	if err := onlyGet(w, r); err != nil {
		return err
	}
	q, err := readQuestion(r.URL.RawQuery)
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	picks, err := q.answer()
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: err}
	}
	return writeJSON(w, picks)
}

const (
	// defaultPicks is how many choices are told when nobody says how many.
	defaultPicks = 20

	// maxNames bounds how many names an error lists.
	maxNames = 20
)

// question is what is asked of the choices. Empty names ask for all.
type question struct {
	pool, endpoint string
	limit          int
}

// readQuestion takes a misspelt parameter for an error: ignored, it would look
// like an answer to what was asked.
func readQuestion(query string) (question, error) {
	q := question{limit: defaultPicks}
	values, err := url.ParseQuery(query)
	if err != nil {
		return q, fmt.Errorf("reading the query: %w", err)
	}
	for key, v := range values {
		switch {
		case key != "pool" && key != "endpoint" && key != "limit":
			return q, fmt.Errorf("unknown parameter %q; have endpoint, limit, pool", key)
		case len(v) > 1:
			return q, fmt.Errorf("parameter %q is given %d times", key, len(v))
		case v[0] == "":
			return q, fmt.Errorf("parameter %q is empty", key)
		}
	}
	q.pool, q.endpoint = values.Get("pool"), values.Get("endpoint")
	if limit := values.Get("limit"); limit != "" {
		if q.limit, err = strconv.Atoi(limit); err != nil || q.limit < 1 || q.limit > llmlb.MaxPicks {
			return q, fmt.Errorf("parameter \"limit\" is %q; have 1 to %d", limit, llmlb.MaxPicks)
		}
	}
	return q, nil
}

// answer finds the choices, or says which names there are.
func (q *question) answer() ([]llmlb.PickStatus, error) {
	var pools, endpoints []string
	asked, known := false, q.endpoint == ""
	picks := []llmlb.PickStatus{} // no choice is an empty list, not null
	llmlb.Pools(func(p *llmlb.Pool) {
		pools = append(pools, p.Name())
		if q.pool != "" && q.pool != p.Name() {
			return
		}
		asked = true
		name := q.endpoint // also of one that has left, but is remembered
		for _, e := range p.Endpoints() {
			endpoints = append(endpoints, e.Name())
			if q.endpoint == e.Name() || q.endpoint == e.Address() {
				name, known = e.Name(), true
			}
		}
		for _, k := range p.Explain() {
			if name == "" || name == k.Endpoint {
				picks = append(picks, k)
			}
		}
	})
	switch {
	case q.pool != "" && !asked:
		return nil, fmt.Errorf("there is no pool %q; have %s", q.pool, listed(pools))
	case !known && len(picks) == 0:
		return nil, fmt.Errorf("there is no endpoint %q; have %s", q.endpoint, listed(endpoints))
	}
	slices.SortStableFunc(picks, func(a, b llmlb.PickStatus) int { return b.At.Compare(a.At) })
	return picks[:min(len(picks), q.limit)], nil
}

func listed(names []string) string {
	switch n := len(names) - maxNames; {
	case len(names) == 0:
		return "none"
	case n > 0:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNames], ", "), n)
	default:
		return strings.Join(names, ", ")
	}
}

func (admin) unknown(http.ResponseWriter, *http.Request) error {
	return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: errors.New("no such resource; have /llmlb/explain, /llmlb/pools, " +
		poolsPrefix + "<pool>, and under it /endpoints/<name or address>[/drain|/reset]")}
}

func onlyGet(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodGet {
		return nil
	}
	w.Header().Set("Allow", http.MethodGet)
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed; have GET")}
}

func writeJSON(w http.ResponseWriter, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(v)
}

// Interface guards
var _ caddy.AdminRouter = admin{}
