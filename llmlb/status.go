package llmlb

import "time"

// PoolStatus is a pool as GET /llmlb/pools shows it. Numbers that are not known
// are null, never zero.
type PoolStatus struct {
	Pool      string           `json:"pool"`
	Strategy  string           `json:"strategy,omitempty"`
	Endpoints []EndpointStatus `json:"endpoints"`

	// AllDown says that checks have taken all endpoints out, and that the pool
	// serves from those whose real traffic does not fail.
	AllDown bool `json:"all_down,omitempty"`

	// AllRefused says that checks have taken out all endpoints, and that the
	// operator wants requests refused then.
	AllRefused bool `json:"all_refused,omitempty"`

	// Queue is what waits for a server.
	Queue QueueStatus `json:"queue"`

	// Refusals is how many requests the gateway has answered itself, by the code
	// of the answer.
	Refusals map[string]uint64 `json:"refusals,omitempty"`

	// Models is what answers have taught about each model, the most used first.
	Models []ModelStatus `json:"models,omitempty"`
}

// ModelStatus is what the pool has learned of a model.
type ModelStatus struct {
	Model string `json:"model"`

	// BytesPerToken is how many bytes of prompt make a token, OutputTokens the
	// mean length of an answer; null until three answers have told.
	BytesPerToken *float64 `json:"bytes_per_token"`
	OutputTokens  *float64 `json:"output_tokens"`
}

// EndpointStatus is one row of the pool table.
type EndpointStatus struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Engine  string `json:"engine,omitempty"`

	// State is one of States; Reason says why it is not up, or why the numbers are
	// missing.
	State  string    `json:"state"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since,omitzero"`

	// Circuit is closed, open, or half-open while a trial is due or under way.
	// RetryAt is when a down endpoint gets its next trial, or an overloaded one
	// new work; absent when that is now, or not known. Next says it in words.
	Circuit string    `json:"circuit"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	Next    string    `json:"next,omitempty"`

	// Drain is how far a drain has come, absent when there is none.
	Drain *DrainStatus `json:"drain,omitempty"`

	// Share is how much of its usual share of the work it is to get, 0 to 1: less
	// than 1 while it warms up or is degraded.
	Share float64 `json:"share"`

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

	// CancelledTokens is how many tokens were computed, or would be in any case,
	// for requests whose clients had left.
	CancelledTokens uint64 `json:"cancelled_tokens"`

	// ScrapeAgeMillis is the age of the numbers; Blind says that they are too
	// old to count.
	ScrapeAgeMillis *float64 `json:"scrape_age_ms"`
	Blind           bool     `json:"blind"`

	// Loadless says that the engine answers and tells no load, as Ollama does.
	Loadless bool `json:"loadless,omitempty"`

	// PrefillSpeed (prompt tokens a second), FloorMillis and ITLMillis (between
	// two tokens of a stream) were learned from our own calls; null until they
	// were. Samples is how many first tokens taught them.
	PrefillSpeed *float64 `json:"prefill_tokens_per_second"`
	FloorMillis  *float64 `json:"ttft_floor_ms"`
	ITLMillis    *float64 `json:"itl_ms"`
	Samples      int      `json:"rate_samples"`

	// PredictedMillis is the time to first token that a request with a prompt
	// of the usual length, PromptTokens, would have now.
	PredictedMillis float64 `json:"predicted_ttft_ms"`
	PromptTokens    float64 `json:"usual_prompt_tokens"`

	// ErrorRate is the share of the latest attempts that failed, 0 to 1.
	ErrorRate float64 `json:"error_rate"`

	Zone   string   `json:"zone,omitempty"`
	Weight float64  `json:"weight,omitempty"`
	Models []string `json:"models,omitempty"`
}

// Status returns the pool as people see it. Members of the current
// configuration come first, in its order; then those that only live on until
// their streams end.
func (p *Pool) Status(now time.Time) PoolStatus {
	queue := p.QueueStatus(now) // which asks the pool
	refusals := make(map[string]uint64)
	p.Refusals(func(reason string, n uint64) { refusals[reason] = n })
	p.mu.Lock()
	defer p.mu.Unlock()
	st := PoolStatus{Pool: p.name, Queue: queue, Refusals: refusals, Endpoints: make([]EndpointStatus, 0, len(p.order))}
	s := p.current()
	if s != nil {
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
	st.AllDown, st.AllRefused = p.allDown(now), p.allRefused(now)
	st.Models = p.modelStatus()
	return st
}

// status fills one row. Under the pool's lock.
func (e *Endpoint) status(now time.Time, s *Settings) EndpointStatus {
	state, reason, since := e.State(now)
	retryAt, then := e.retry(now)
	if reason == "" {
		reason = e.scrapeError
	}
	row := EndpointStatus{
		Name: e.Name(), Address: e.address,
		State: state.String(), Reason: reason, Since: since,
		Circuit: e.circuit.phase(now).String(), RetryAt: retryAt, Next: then,
		Drain: e.drainStatus(), Share: e.Share(now, s),
		Calls:         e.ledger.own.calls(),
		PrefillTokens: e.ledger.own.prefillTokens,
		OutputTokens:  e.ledger.own.outputTokens,

		CancelledTokens: e.cancelled.Load(),
	}
	load := e.Load(now, s)
	row.Blind = load.Blind
	e.rateStatus(&row, now, &load)
	if m := s.byAddress[e.address]; m != nil {
		row.Zone, row.Weight = m.Zone, m.Weight
	}
	if ttft, ok := e.RecentTTFT(now); ok {
		row.TTFTMillis = known(float64(ttft) / float64(time.Millisecond))
	}
	if sig, ok := e.ledger.Signals(); ok && (!row.Blind || s.Scrape.Engine != "none") {
		row.Engine, row.Models = sig.Engine, sig.Models
		if len(e.served.list) > 0 {
			row.Models = e.served.list
		}
		if !row.Blind {
			row.Running, row.Waiting = known(sig.Running), known(sig.Waiting)
			row.KVUsage = known(sig.KVUsage)
			if e.ledger.speedKnown {
				row.TokensPerSecond = known(e.ledger.tokensPerSecond)
			}
		}
		// They may have come since now was looked at.
		row.ScrapeAgeMillis = known(float64(max(0, now.Sub(sig.At))) / float64(time.Millisecond))
		row.Loadless = !sig.HasLoad() && now.Sub(sig.At) < s.Scrape.StaleAfter
		if row.Reason == "" && e.ledger.denial.proved(now, s.Scrape.Interval) {
			row.Reason = "its numbers deny our own requests"
		}
	}
	return row
}

// rateStatus fills in how fast the endpoint is known to be.
func (e *Endpoint) rateStatus(row *EndpointStatus, now time.Time, load *Load) {
	r, _ := e.Rate(now)
	if row.Samples = r.Samples; r.Samples >= enoughSamples {
		row.PrefillSpeed, row.FloorMillis = known(r.Speed), known(r.Floor*1000)
	}
	if r.ITL > 0 {
		row.ITLMillis = known(r.ITL * 1000)
	}
	row.PromptTokens = e.ledger.promptMean()
	row.PredictedMillis = 1000 * r.Predict(load.PrefillTokens, row.PromptTokens, load.Waiting)
	row.ErrorRate = e.errors.rate(now)
}

func known(x float64) *float64 {
	if x < 0 {
		return nil
	}
	return &x
}
