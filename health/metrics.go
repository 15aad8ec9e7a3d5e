package health

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// collector shows every living pool in Caddy's registry. It holds nothing: all
// numbers are read from the endpoints when they are asked for, so that counters
// go on over reloads, whose registries are new each time. Labels come from the
// configuration alone.
type collector struct{}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("caddy_llmlb_"+name, help, append([]string{"pool", "endpoint"}, labels...), nil)
}

var (
	descDecisions = desc("decisions_total", "Choices of the endpoint, by reason.", "reason")
	descAttempts  = desc("attempts_total", "Ended attempts at the endpoint, by outcome.", "outcome")
	descTTFT      = desc("ttft_seconds", "Time to first token of attempts at the endpoint.")
	descFirstByte = desc("first_byte_seconds", "Time to the first byte of the answer's body of attempts at the endpoint.")
	descTokens    = desc("tokens_in_flight",
		"Tokens of this gateway's open calls at the endpoint: uncached prompt tokens before the first token, and expected output tokens.", "phase")
	descCalls        = desc("calls_in_flight", "This gateway's open calls at the endpoint.")
	descScrapeAge    = desc("scrape_age_seconds", "Age of the endpoint's last load numbers. Absent when there never were any.")
	descScrapes      = desc("scrapes_total", "Scrapes of the endpoint.")
	descScrapeErrors = desc("scrape_errors_total", "Scrapes of the endpoint that told no load, or a value that cannot be, by why.", "reason")
	descState        = desc("endpoint_state", "1 for the state the endpoint is in, 0 for the others.", "state")
	descCircuit      = desc("circuit_state", "1 for the state the endpoint's circuit is in, 0 for the others.", "state")
	descOpenings     = desc("circuit_openings_total", "How often the endpoint's circuit has opened.")
	descRunning      = desc("running_requests", "Requests in the engine's batch, everybody's, as last scraped. Absent when not known or stale.")
	descWaiting      = desc("waiting_requests", "Requests in the engine's queue, everybody's, as last scraped. Absent when not known or stale.")
	descKVUsage      = desc("kv_usage_ratio", "Share of KV-cache memory in use, 0 to 1, as last scraped. Absent when not known or stale.")
	descSpeed        = desc("prefill_tokens_per_second", "Prompt tokens the endpoint computes a second, as learned from this gateway's calls. Absent until learned.")
	descITL          = desc("itl_seconds", "Time between two tokens of a stream, as learned from this gateway's calls. Absent until learned.")
	descFloor        = desc("ttft_floor_seconds", "Time to first token that no prompt is too short for, as learned from this gateway's calls. Absent until learned.")
	descPredicted    = desc("predicted_ttft_seconds", "Time to first token predicted for a prompt of the usual length sent now.")
	descCancelled    = desc("cancelled_tokens_total", "Tokens the endpoint has computed, or begun to, for requests whose clients had left.")
	descErrorRate    = desc("error_rate", "Share of this gateway's latest attempts at the endpoint that failed, 0 to 1.")
)

// Of whole pools.
var (
	descRetries = prometheus.NewDesc("caddy_llmlb_retries_total",
		"Attempts of the pool's calls that followed a failed one.", []string{"pool"}, nil)
	descRefused = prometheus.NewDesc("caddy_llmlb_retries_refused_total",
		"Attempts that the pool's retry budget has not allowed.", []string{"pool"}, nil)
)

// register adds the collector, unless the registry has it.
func register(r prometheus.Registerer) error {
	var already prometheus.AlreadyRegisteredError
	if err := r.Register(collector{}); err != nil && !errors.As(err, &already) {
		return err
	}
	return nil
}

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descDecisions, descAttempts, descTTFT, descTokens, descCalls, descScrapeAge,
		descScrapes, descScrapeErrors, descState, descRunning, descWaiting, descKVUsage,
		descSpeed, descITL, descFloor, descPredicted, descErrorRate,
		descFirstByte, descCircuit, descOpenings, descCancelled, descRetries, descRefused,
	} {
		ch <- d
	}
	describeQueue(ch)
	describeHealth(ch)
}

// Collect implements prometheus.Collector.
func (collector) Collect(ch chan<- prometheus.Metric) {
	now := time.Now()
	ch <- prometheus.MustNewConstMetric(descDropped, prometheus.CounterValue, float64(eventsDropped.Load()))
	llmlb.Pools(func(p *llmlb.Pool) {
		learned := make(map[string]*llmlb.EndpointStatus)
		st := p.Status(now)
		for i := range st.Endpoints {
			learned[st.Endpoints[i].Address] = &st.Endpoints[i]
		}
		ch <- prometheus.MustNewConstMetric(descRetries, prometheus.CounterValue, float64(p.Retries()), p.Name())
		ch <- prometheus.MustNewConstMetric(descRefused, prometheus.CounterValue, float64(p.RetriesRefused()), p.Name())
		collectQueue(ch, p, &st.Queue)
		current := p.Current()
		collectPoolHealth(ch, p, current, now)
		for e, name := range labelled(p) {
			collectCounters(ch, e, p.Name(), name)
			collectHealth(ch, e, current, now, p.Name(), name)
			collectGauges(ch, e, now, p.Name(), name)
			if row := learned[e.Address()]; row != nil { // else it came a moment ago
				collectLearned(ch, row, p.Name(), name)
			}
		}
	})
}

// labelled gives every endpoint of the pool a label of its own: its name,
// unless an endpoint of the current settings has taken that over while this one
// still finishes streams.
func labelled(p *llmlb.Pool) map[*llmlb.Endpoint]string {
	current := p.Current()
	all := p.Endpoints()
	labels := make(map[*llmlb.Endpoint]string, len(all))
	taken := make(map[string]bool, len(all))
	take := func(e *llmlb.Endpoint, name string) {
		if !taken[name] {
			labels[e], taken[name] = name, true
		}
	}
	member := func(e *llmlb.Endpoint) bool { return current != nil && current.Member(e.Address()) != nil }
	for _, e := range all {
		if member(e) {
			take(e, e.Name())
		}
	}
	for _, e := range all {
		if member(e) {
			continue
		}
		if name := e.Name(); !taken[name] {
			take(e, name)
		} else {
			take(e, llmlb.DefaultName(p.Name(), e.Address()))
		}
	}
	return labels
}

func collectCounters(ch chan<- prometheus.Metric, e *llmlb.Endpoint, labels ...string) {
	counter := func(d *prometheus.Desc, n uint64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append(labels[:2:2], more...)...)
	}
	for _, r := range llmlb.Reasons() {
		counter(descDecisions, e.Decisions(r), r.String())
	}
	for _, o := range llmlb.Outcomes() {
		counter(descAttempts, e.Ended(o), o.String())
	}
	tried, _ := e.Scrapes()
	counter(descScrapes, tried)
	counter(descOpenings, e.CircuitOpenings())
	counter(descCancelled, e.CancelledTokens())
	histogram := func(d *prometheus.Desc, h *llmlb.Histogram) {
		count, sum, buckets := h.Snapshot()
		ch <- prometheus.MustNewConstHistogram(d, count, sum, buckets, labels...)
	}
	histogram(descTTFT, e.TTFT)
	histogram(descFirstByte, e.FirstByte)
}

func collectGauges(ch chan<- prometheus.Metric, e *llmlb.Endpoint, now time.Time, labels ...string) {
	gauge := func(d *prometheus.Desc, v float64, more ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, append(labels[:2:2], more...)...)
	}
	known := func(d *prometheus.Desc, v float64) {
		if v >= 0 {
			gauge(d, v)
		}
	}
	p := e.Pool()
	staleAfter := llmlb.DefaultStaleAfter
	if s := p.Current(); s != nil && s.Scrape.StaleAfter > 0 {
		staleAfter = s.Scrape.StaleAfter
	}
	p.Lock()
	l := e.Ledger()
	prefillTokens, outputTokens := l.TokensInFlight()
	prefill, decode := l.OwnCalls()
	signals, scraped := l.Signals()
	state, _, _ := e.State(now)
	circuit := e.Circuit(now)
	p.Unlock()

	gauge(descTokens, float64(prefillTokens), "prefill")
	gauge(descTokens, float64(outputTokens), "output")
	gauge(descCalls, float64(prefill+decode))
	one := func(d *prometheus.Desc, name string, in bool) {
		v := 0.0
		if in {
			v = 1
		}
		gauge(d, v, name)
	}
	for _, s := range llmlb.States() {
		one(descState, s.String(), s == state)
	}
	for _, c := range llmlb.CircuitPhases() {
		one(descCircuit, c.String(), c == circuit)
	}
	if !scraped {
		return
	}
	age := max(0, now.Sub(signals.At)) // they may have come since now was looked at
	gauge(descScrapeAge, age.Seconds())
	// A server that died idle must not go on looking idle on a dashboard.
	if age < staleAfter {
		known(descRunning, signals.Running)
		known(descWaiting, signals.Waiting)
		known(descKVUsage, signals.KVUsage)
	}
}

// collectLearned shows what calls have taught, in the figures of the pool table.
func collectLearned(ch chan<- prometheus.Metric, row *llmlb.EndpointStatus, labels ...string) {
	gauge := func(d *prometheus.Desc, v *float64, per float64) {
		if v != nil {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, *v/per, labels...)
		}
	}
	const second = 1000 // milliseconds
	gauge(descSpeed, row.PrefillSpeed, 1)
	gauge(descITL, row.ITLMillis, second)
	gauge(descFloor, row.FloorMillis, second)
	gauge(descPredicted, &row.PredictedMillis, second)
	gauge(descErrorRate, &row.ErrorRate, 1)
	overdue := 0.0
	if row.Drain != nil && row.Drain.Overdue && row.State == llmlb.Draining.String() {
		overdue = 1
	}
	gauge(descOverdue, &overdue, 1)
}
