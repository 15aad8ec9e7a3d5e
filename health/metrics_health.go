package health

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Of what endpoints have done, and of what was found out about them.
var (
	descITLs         = desc("inter_token_seconds", "Time between two tokens of streams from the endpoint, each gap of each stream.")
	descPrompt       = desc("prompt_tokens_total", "Tokens of prompts that the endpoint has answered: found in its cache, not found there, or not told.", "cache")
	descOutput       = desc("output_tokens_total", "Tokens that the endpoint has generated for this gateway.")
	descShare        = desc("endpoint_share", "How much of its usual share of the work the endpoint gets, 0 to 1: less while it warms up or is degraded.")
	descOverdue      = desc("drain_overdue", "1 while the endpoint drains by order and the order's limit is over, else 0.")
	descStateChanges = desc("state_changes_total", "How often the endpoint has come into the state.", "to")
	descChecks       = desc("checks_total", "Checks of the endpoint, by what they have shown.", "kind", "result")
)

// Of whole pools.
var (
	descAllDown = poolDesc("pool_all_down", "1 while checks have taken out all endpoints and the pool serves all the same.")
	descSLO     = poolDesc("slo_requests_total", "Requests that have ended and asked for what could be had, by whether they have kept the SLO.", "class", "result")
	descSLOTime = poolDesc("slo_seconds", "The time that the SLO allows.", "kind")
)

// descDropped counts for all of Caddy: a change belongs to a pool, and a handler to
// a configuration.
var descDropped = prometheus.NewDesc("caddy_llmlb_events_dropped_total",
	"Events of changed states that handlers were too slow for.", nil, nil)

func describeHealth(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descITLs, descPrompt, descOutput, descShare, descOverdue, descStateChanges, descChecks,
		descAllDown, descSLO, descSLOTime, descDropped,
	} {
		ch <- d
	}
}

// collectHealth shows what an endpoint has done and what it is given.
func collectHealth(ch chan<- prometheus.Metric, e *llmlb.Endpoint, s *llmlb.Settings, now time.Time, labels ...string) {
	counter := func(d *prometheus.Desc, n uint64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(labels[:2:2], more...)...)
	}
	count, sum, buckets := e.ITL.Snapshot()
	ch <- prometheus.MustNewConstHistogram(descITLs, count, sum, buckets, labels...)
	t := e.Tokens()
	counter(descPrompt, t.Hit, "hit")
	counter(descPrompt, t.Miss, "miss")
	counter(descPrompt, t.Untold, "untold")
	counter(descOutput, t.Output)
	for _, state := range llmlb.States() {
		counter(descStateChanges, e.StateChanges(state), state.String())
	}
	for _, kind := range llmlb.CheckKinds() {
		for _, v := range llmlb.CheckVerdicts() {
			counter(descChecks, e.Checks(kind, v), kind.String(), v.String())
		}
	}
	e.ScrapeFailures(func(kind llmlb.ScrapeFailure, n uint64) { counter(descScrapeErrors, n, kind.String()) })

	p := e.Pool()
	p.Lock()
	share := e.Share(now, s)
	p.Unlock()
	ch <- prometheus.MustNewConstMetric(descShare, prometheus.GaugeValue, share, labels...)
}

// collectPoolHealth shows how a whole pool does.
func collectPoolHealth(ch chan<- prometheus.Metric, p *llmlb.Pool, s *llmlb.Settings, now time.Time) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append([]string{p.Name()}, labels...)...)
	}
	allDown := 0.0
	if p.AllDown(now) {
		allDown = 1
	}
	gauge(descAllDown, allDown)
	p.SLOResults(func(class string, r llmlb.SLOResult, n uint64) {
		ch <- prometheus.MustNewConstMetric(descSLO, prometheus.CounterValue, float64(n), p.Name(), class, r.String())
	})
	if s == nil {
		return
	}
	if d := s.SLO.TTFT; d > 0 {
		gauge(descSLOTime, d.Seconds(), "ttft")
	}
	if d := s.SLO.TPOT; d > 0 {
		gauge(descSLOTime, d.Seconds(), "tpot")
	}
}
