package status

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// maxAsked bounds how many endpoints one request for history may name.
	maxAsked = 50

	// maxQuery bounds the query, so that names of 50 endpoints fit and not more.
	maxQuery = 16 << 10
)

// history answers with what was seen of some endpoints, and what more there is to
// say of them than a row does: the page asks for those whose plots it shows.
//
//	GET …/history?pool=<name>&endpoint=<name>[&endpoint=<name>…]
func (h *Handler) history(w http.ResponseWriter, r *http.Request) error {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	pool, names, err := readAsked(r.URL.RawQuery)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, "bad_parameter", err.Error())
		return nil
	}
	p := h.find(pool)
	if p == nil {
		refuse(w, r, http.StatusNotFound, "pool_not_found", fmt.Sprintf("there is no pool %q here", pool))
		return nil
	}
	watch := acquireWatch()
	defer releaseWatch()
	now := time.Now()
	st := statusOf(p, now)
	counted := make(map[string]*llmlb.Endpoint)
	for _, e := range p.Endpoints() {
		counted[e.Address()] = e
	}
	b := append([]byte(nil), `{"endpoints":{`...)
	comma := false
	watch.mu.Lock()
	for i := range st.Endpoints {
		e := &st.Endpoints[i]
		if !slices.Contains(names, e.Name) {
			continue
		}
		if comma {
			b = append(b, ',')
		}
		comma = true
		b = append(append(b, asJSON(e.Name)...), `:{"more":`...)
		b = append(b, asJSON(h.more(e, counted[e.Address]))...)
		if past := watch.past.endpoint(pool, e.Address); past != nil {
			b = appendAll(append(b, `,"series":`...), past.ring[:], watch.past.last)
		}
		b = append(b, '}')
	}
	b = fmt.Appendf(b, `},"at":%d}`, watch.past.last*millis(step))
	watch.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, err = w.Write(b)
	return err
}

// find returns the pool if it may be shown, else nil.
func (h *Handler) find(name string) (found *llmlb.Pool) {
	if !h.shows(name) {
		return nil
	}
	llmlb.Pools(func(p *llmlb.Pool) {
		if p.Name() == name {
			found = p
		}
	})
	return found
}

func (h *history) endpoint(pool, address string) *endpointHistory {
	if p := h.pools[pool]; p != nil {
		return p.endpoints[address]
	}
	return nil
}

// more is what stands in an endpoint's details.
type more struct {
	Engine    string            `json:"engine,omitempty"`
	Models    []string          `json:"models,omitempty"`
	Circuit   string            `json:"circuit,omitempty"`
	Prefill   *float64          `json:"prefill_tokens_per_second"`
	Floor     *float64          `json:"ttft_floor_ms"`
	ITL       *float64          `json:"itl_ms"`
	Predicted float64           `json:"predicted_ttft_ms"`
	Usual     float64           `json:"usual_prompt_tokens"`
	Waiting   int               `json:"prompt_tokens_in_flight"`
	Output    int               `json:"output_tokens_in_flight"`
	Cancelled uint64            `json:"cancelled_tokens"`
	Decisions map[string]uint64 `json:"decisions,omitempty"` // since it is known
}

// maxModels bounds how many names of models are told of one endpoint.
const maxModels = 20

func (h *Handler) more(e *llmlb.EndpointStatus, living *llmlb.Endpoint) more {
	m := more{
		Engine: e.Engine, Models: e.Models[:min(len(e.Models), maxModels)], Circuit: e.Circuit,
		Prefill: e.PrefillSpeed, Floor: e.FloorMillis, ITL: e.ITLMillis,
		Predicted: e.PredictedMillis, Usual: e.PromptTokens,
		Waiting: e.PrefillTokens, Output: e.OutputTokens, Cancelled: e.CancelledTokens,
		Decisions: make(map[string]uint64),
	}
	if living == nil {
		return m
	}
	for _, r := range reasons {
		if n := living.Decisions(r); n > 0 {
			m.Decisions[r.String()] = n
		}
	}
	return m
}

// readAsked reads which endpoints of which pool are asked for. A misspelt parameter
// is an error: ignored, it would look like an answer to what was asked.
func readAsked(query string) (pool string, endpoints []string, err error) {
	if len(query) > maxQuery {
		return "", nil, fmt.Errorf("the query is over %d bytes", maxQuery)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", nil, fmt.Errorf("reading the query: %w", err)
	}
	for key := range values {
		if key != "pool" && key != "endpoint" {
			return "", nil, fmt.Errorf("unknown parameter %q; have endpoint, pool", key)
		}
	}
	endpoints = values["endpoint"]
	switch {
	case len(values["pool"]) != 1:
		return "", nil, fmt.Errorf("parameter \"pool\" is given %d times; have one", len(values["pool"]))
	case len(endpoints) == 0 || len(endpoints) > maxAsked:
		return "", nil, fmt.Errorf("parameter \"endpoint\" is given %d times; have 1 to %d", len(endpoints), maxAsked)
	}
	return values.Get("pool"), endpoints, nil
}
