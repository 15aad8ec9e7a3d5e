package llmlb

import "time"

// PoolStatus is a pool as GET /llmlb/pools shows it. Numbers that are not known
// are null, never zero.
type PoolStatus struct {
	Pool      string           `json:"pool"`
	Strategy  string           `json:"strategy,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints"`
}

// EndpointStatus is one row of the pool table.
type EndpointStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Engine  string `json:"engine,omitempty"`

	// State is up, down, draining or drained; Reason says why it is down, or
	// why the numbers are missing.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`

	// Running, Waiting and KVUsage (0 to 1) are as last scraped, everybody's
	// requests counted; null when that is longer ago than stale_after.
	Running *float64 `json:"running"`
	Waiting *float64 `json:"waiting"`
	KVUsage *float64 `json:"kv_usage"`

	// TTFTMillis is the latest time to first token within a minute.
	TTFTMillis *float64 `json:"ttft_ms"`

	// TokensPerSecond is the engine's generation speed between two scrapes.
	TokensPerSecond *float64 `json:"tokens_per_second"`

	// Calls, PrefillTokens and OutputTokens are this gateway's own open work:
	// requests, uncached prompt tokens without a first token, and expected
	// output tokens.
	Calls         int `json:"calls"`
	PrefillTokens int `json:"prefill_tokens"`
	OutputTokens  int `json:"output_tokens"`

	// ScrapeAgeMillis is the age of the numbers; Blind says that they are too
	// old to count.
	ScrapeAgeMillis *float64 `json:"scrape_age_ms"`
	Blind           bool     `json:"blind"`

	Models []string `json:"models,omitempty"`
}

// Status returns the pool as people see it. Members of the current
// configuration come first, in its order; then those that only live on until
// their streams end.
func (p *Pool) Status(now time.Time) PoolStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	st := PoolStatus{Pool: p.name, Endpoints: make([]EndpointStatus, 0, len(p.order))}
	var s *Settings
	if n := len(p.running); n > 0 {
		s = p.running[n-1]
		st.Strategy = s.Strategy
	} else {
		s = &Settings{Scrape: Scrape{Interval: DefaultInterval, StaleAfter: DefaultStaleAfter}}
	}
	for i := range s.Members {
		st.Endpoints = append(st.Endpoints, s.Members[i].Endpoint.status(now, s))
	}
	for _, e := range p.order {
		if s.byAddress[e.address] == nil {
			st.Endpoints = append(st.Endpoints, e.status(now, s))
		}
	}
	return st
}

// status fills one row. Under the pool's lock.
func (e *Endpoint) status(now time.Time, s *Settings) EndpointStatus {
	state, reason, since := e.State()
	if reason == "" {
		reason = e.scrapeError
	}
	row := EndpointStatus{
		Name: e.Name(), Address: e.address,
		State: state.String(), Reason: reason, Since: since,
		Calls:         e.ledger.own.calls(),
		PrefillTokens: e.ledger.own.prefillTokens,
		OutputTokens:  e.ledger.own.outputTokens,
		Blind:         e.Load(now, s).Blind,
	}
	if ttft, ok := e.RecentTTFT(now); ok {
		row.TTFTMillis = known(float64(ttft) / float64(time.Millisecond))
	}
	if sig, ok := e.ledger.Signals(); ok {
		row.Engine, row.Models = sig.Engine, sig.Models
		if !row.Blind {
			row.Running, row.Waiting = known(sig.Running), known(sig.Waiting)
			row.KVUsage = known(sig.KVUsage)
			row.TokensPerSecond = known(e.ledger.tokensPerSecond)
		}
		row.ScrapeAgeMillis = known(float64(now.Sub(sig.At)) / float64(time.Millisecond))
	}
	return row
}

func known(x float64) *float64 {
	if x < 0 {
		return nil
	}
	return &x
}
