package health

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// gather returns what Caddy's /metrics would show of us, as "name{labels}" to
// value; of histograms, count and sum.
func gather(t *testing.T, r *prometheus.Registry) map[string]float64 {
	t.Helper()
	all, err := r.Gather()
	if err != nil {
		t.Fatalf("gathering: %v", err)
	}
	got := make(map[string]float64)
	for _, mf := range all {
		if !strings.HasPrefix(mf.GetName(), "caddy_llmlb_") {
			continue
		}
		for _, m := range mf.GetMetric() {
			labels := labelText(m)
			switch mf.GetType() {
			case dto.MetricType_COUNTER:
				got[mf.GetName()+labels] = m.GetCounter().GetValue()
			case dto.MetricType_HISTOGRAM:
				got[mf.GetName()+"_count"+labels] = float64(m.GetHistogram().GetSampleCount())
				got[mf.GetName()+"_sum"+labels] = m.GetHistogram().GetSampleSum()
			default:
				got[mf.GetName()+labels] = m.GetGauge().GetValue()
			}
		}
	}
	return got
}

// labelText leaves the pool out: it is the test's name.
func labelText(m *dto.Metric) string {
	var list []string
	for _, l := range m.GetLabel() {
		if l.GetName() != "pool" {
			list = append(list, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
	}
	slices.Sort(list)
	return "{" + strings.Join(list, ",") + "}"
}

// Metrics show what the endpoint did, go on over a reload, and leave out what
// nobody knows.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func() *llmlb.Settings {
			s := settings(t, nil, "a:1", "b:1")
			s.Scrape.Engine = none
			s.Members[0].Name, s.Members[1].Name = "a", "b"
			return s
		}
		c := newConfig(t, nil)
		h := c.watch(t, named())
		c.start(t)
		e, p := h.Settings().Members[0].Endpoint, h.Pool()
		signals := llmlb.NoSignals(time.Now())
		signals.Engine, signals.Running, signals.Waiting, signals.KVUsage = "vllm", 3, 1, 0.5
		e.ObserveSignals(signals)
		e.ObserveScrapeError(time.Now(), "404")
		e.CountScrapeFailure(reason("404").kind())
		e.CountDecision(llmlb.ReasonWarm)
		cut := llmlb.NewCall(p, h.Settings(), time.Now())
		cut.InputTokens = 1
		p.Lock()
		cut.Lease = p.Reserve(e, time.Now(), llmlb.Work{Uncached: 1, Output: 1})
		p.Unlock()
		cut.EndAttempt(time.Now(), llmlb.Truncated)
		e.ObserveTTFT(time.Now(), 300*time.Millisecond)
		p.Lock()
		lease := p.Reserve(e, time.Now(), llmlb.Work{Uncached: 700, Output: 128})
		p.Unlock()
		time.Sleep(2 * time.Second)

		check := func(when string, r *prometheus.Registry, want map[string]float64, absent ...string) {
			t.Helper()
			got := gather(t, r)
			for series, v := range want {
				if g, ok := got[series]; !ok || g != v {
					t.Errorf("%s: %s is %v (there: %v), want %v", when, series, g, ok, v)
				}
			}
			for _, series := range absent {
				if v, ok := got[series]; ok {
					t.Errorf("%s: %s is %v, want it left out", when, series, v)
				}
			}
		}
		counters := map[string]float64{
			`caddy_llmlb_decisions_total{endpoint="a",reason="warm"}`:        1,
			`caddy_llmlb_decisions_total{endpoint="a",reason="cold"}`:        0,
			`caddy_llmlb_attempts_total{endpoint="a",outcome="truncated"}`:   1,
			`caddy_llmlb_attempts_total{endpoint="b",outcome="truncated"}`:   0,
			`caddy_llmlb_ttft_seconds_count{endpoint="a"}`:                   1,
			`caddy_llmlb_ttft_seconds_sum{endpoint="a"}`:                     0.3,
			`caddy_llmlb_scrapes_total{endpoint="a"}`:                        2,
			`caddy_llmlb_scrape_errors_total{endpoint="a",reason="status"}`:  1,
			`caddy_llmlb_scrape_errors_total{endpoint="a",reason="timeout"}`: 0,
			`caddy_llmlb_tokens_in_flight{endpoint="a",phase="prefill"}`:     700,
			`caddy_llmlb_tokens_in_flight{endpoint="a",phase="output"}`:      128,
			`caddy_llmlb_calls_in_flight{endpoint="a"}`:                      1,
			`caddy_llmlb_endpoint_state{endpoint="a",state="up"}`:            1,
			`caddy_llmlb_endpoint_state{endpoint="a",state="down"}`:          0,
		}
		load := map[string]float64{
			`caddy_llmlb_scrape_age_seconds{endpoint="a"}`: 2,
			`caddy_llmlb_running_requests{endpoint="a"}`:   3,
			`caddy_llmlb_waiting_requests{endpoint="a"}`:   1,
			`caddy_llmlb_kv_usage_ratio{endpoint="a"}`:     0.5,
		}
		check("fresh", c.registry, counters, `caddy_llmlb_running_requests{endpoint="b"}`, `caddy_llmlb_scrape_age_seconds{endpoint="b"}`)
		check("fresh", c.registry, load)

		next := newConfig(t, nil)
		next.watch(t, named())
		next.start(t)
		c.end(t)
		check("after a reload", next.registry, counters)

		time.Sleep(10 * time.Second)
		check("stale", next.registry, map[string]float64{`caddy_llmlb_scrape_age_seconds{endpoint="a"}`: 12},
			`caddy_llmlb_running_requests{endpoint="a"}`, `caddy_llmlb_kv_usage_ratio{endpoint="a"}`)
		lease.End(time.Now())
		next.end(t)
	})
}

// An operator sees that a server is kept out because it fails, that another has
// too much to do, and what that costs in second attempts.
func TestMetricsOfFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil)
		s := settings(t, nil, "a:1", "b:1")
		s.Scrape.Engine = none
		s.Members[0].Name, s.Members[1].Name = "a", "b"
		s.Circuit = llmlb.Circuit{Failures: 3, OpenFor: 10 * time.Second}
		h := c.watch(t, s)
		c.start(t)
		p, e := h.Pool(), h.Settings().Members[0].Endpoint
		for range 3 {
			call := llmlb.NewCall(p, h.Settings(), time.Now())
			call.InputTokens = 10
			p.Lock()
			call.Lease = p.Reserve(e, time.Now(), llmlb.Work{Uncached: 10, Output: 10})
			p.Unlock()
			call.Begin(e, time.Now())
			call.EndAttempt(time.Now(), llmlb.EngineError)
			call.Begin(h.Settings().Members[1].Endpoint, time.Now())
		}
		e.FirstByte.Observe(200 * time.Millisecond)
		h.Settings().Members[1].Endpoint.NoteOverload(time.Now(), 5*time.Second)
		for p.TakeRetry(time.Now()) {
		}
		check := func(when string, want map[string]float64) {
			t.Helper()
			got := gather(t, c.registry)
			for series, v := range want {
				if g, ok := got[series]; !ok || g != v {
					t.Errorf("%s: %s is %v (there: %v), want %v", when, series, g, ok, v)
				}
			}
		}
		check("at once", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="a",state="down"}`:       1,
			`caddy_llmlb_endpoint_state{endpoint="a",state="up"}`:         0,
			`caddy_llmlb_endpoint_state{endpoint="a",state="overloaded"}`: 0,
			`caddy_llmlb_endpoint_state{endpoint="b",state="overloaded"}`: 1,
			`caddy_llmlb_endpoint_state{endpoint="b",state="up"}`:         0,
			`caddy_llmlb_circuit_state{endpoint="a",state="open"}`:        1,
			`caddy_llmlb_circuit_state{endpoint="a",state="closed"}`:      0,
			`caddy_llmlb_circuit_state{endpoint="b",state="closed"}`:      1,
			`caddy_llmlb_circuit_openings_total{endpoint="a"}`:            1,
			`caddy_llmlb_circuit_openings_total{endpoint="b"}`:            0,
			`caddy_llmlb_first_byte_seconds_count{endpoint="a"}`:          1,
			`caddy_llmlb_first_byte_seconds_sum{endpoint="a"}`:            0.2,
			`caddy_llmlb_retries_total{}`:                                 3,
			`caddy_llmlb_body_bytes{}`:                                    0,
			`caddy_llmlb_retries_refused_total{}`:                         1,
		})
		time.Sleep(10 * time.Second)
		check("when the trial is due", map[string]float64{
			`caddy_llmlb_circuit_state{endpoint="a",state="half-open"}`:   1,
			`caddy_llmlb_circuit_state{endpoint="a",state="open"}`:        0,
			`caddy_llmlb_endpoint_state{endpoint="a",state="down"}`:       1,
			`caddy_llmlb_endpoint_state{endpoint="b",state="overloaded"}`: 0,
			`caddy_llmlb_endpoint_state{endpoint="b",state="up"}`:         1,
		})
		c.end(t)
	})
}

// A name that moves to another server while the old one finishes a stream
// gives no series twice: the registry would refuse everything.
func TestMetricsOfANameThatMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := func(address string) *llmlb.Settings {
			s := settings(t, nil, address)
			s.Scrape.Engine = none
			s.Members[0].Name = "gpu"
			return s
		}
		c := newConfig(t, nil)
		h := c.watch(t, at("a:1"))
		c.start(t)
		p := h.Pool()
		p.Lock()
		lease := p.Reserve(h.Settings().Members[0].Endpoint, time.Now(), llmlb.Work{Uncached: 10, Output: 10})
		p.Unlock()
		next := newConfig(t, nil)
		next.watch(t, at("b:1"))
		next.start(t)
		c.end(t)
		got := gather(t, next.registry)
		if v := got[`caddy_llmlb_calls_in_flight{endpoint="gpu"}`]; v != 0 {
			t.Errorf("the new server has %v calls in flight", v)
		}
		old := fmt.Sprintf("caddy_llmlb_calls_in_flight{endpoint=%q}", llmlb.DefaultName(t.Name(), "a:1"))
		if v := got[old]; v != 1 {
			t.Errorf("%s is %v, want the stream of the server that left", old, v)
		}
		lease.End(time.Now())
		next.end(t)
	})
}

// Two apps of one registry (as Caddy's own tests make them) do not clash.
func TestMetricsRegisteredTwice(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	for range 2 {
		if err := register(r); err != nil {
			t.Fatal(err)
		}
	}
}

// What was learned of a server is absent until it is, and then what the table
// shows, in seconds.
func TestMetricsOfWhatWasLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil)
		s := settings(t, nil, "a:1", "b:1")
		s.Scrape.Engine = none
		s.Members[0].Name, s.Members[1].Name = "a", "b"
		h := c.watch(t, s)
		c.start(t)
		for range 20 {
			call := llmlb.NewCall(h.Pool(), h.Settings(), time.Now())
			call.InputTokens = 1000
			h.Pool().Lock()
			call.Lease = h.Pool().Reserve(h.Settings().Members[0].Endpoint, time.Now(), llmlb.Work{Uncached: 1000, Output: 51})
			h.Pool().Unlock()
			time.Sleep(150 * time.Millisecond)
			call.SawFirstToken(time.Now())
			time.Sleep(time.Second)
			call.LastToken, call.TokenEvents, call.OutputTokens = time.Now(), 51, 51
			call.EndAttempt(time.Now(), llmlb.Served)
		}
		for range 2 {
			call := llmlb.NewCall(h.Pool(), h.Settings(), time.Now())
			call.InputTokens = 1
			h.Pool().Lock()
			call.Lease = h.Pool().Reserve(h.Settings().Members[1].Endpoint, time.Now(), llmlb.Work{Uncached: 1, Output: 1})
			h.Pool().Unlock()
			call.EndAttempt(time.Now(), llmlb.EngineError)
		}
		got := gather(t, c.registry)
		near := func(series string, want, by float64) {
			t.Helper()
			if v, ok := got[series]; !ok || v < want-by || v > want+by {
				t.Errorf("%s is %v (there: %v), want %v ± %v", series, v, ok, want, by)
			}
		}
		near(`caddy_llmlb_prefill_tokens_per_second{endpoint="a"}`, 10_000, 2500)
		near(`caddy_llmlb_itl_seconds{endpoint="a"}`, 0.020, 1e-9)
		near(`caddy_llmlb_ttft_floor_seconds{endpoint="a"}`, 0.045, 0.015)
		near(`caddy_llmlb_predicted_ttft_seconds{endpoint="a"}`, 0.150, 0.010)
		near(`caddy_llmlb_error_rate{endpoint="a"}`, 0, 0)
		near(`caddy_llmlb_error_rate{endpoint="b"}`, 0.5, 1e-9)
		near(`caddy_llmlb_predicted_ttft_seconds{endpoint="b"}`, 0.25+2*2000/5000.0, 1e-6) // as assumed, behind what failed
		for _, name := range []string{"prefill_tokens_per_second", "itl_seconds", "ttft_floor_seconds"} {
			if v, ok := got["caddy_llmlb_"+name+`{endpoint="b"}`]; ok {
				t.Errorf("%s of b is %v, want it left out", name, v)
			}
		}
		c.end(t)
	})
}
