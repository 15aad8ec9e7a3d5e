package health

import (
	"context"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// An operator sees from the metrics alone that a server has become degraded, gets
// less, what its checks have shown, and that the pool goes on with nobody fit.
func TestMetricsOfHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newConfig(t, nil)
		s := settings(t, nil, "a:1", "b:1")
		s.Scrape.Engine = none
		s.Members[0].Name, s.Members[1].Name = "a", "b"
		s.Checks.Canary = llmlb.Canary{Interval: time.Second, Fails: 2}
		s.SLO = llmlb.SLO{TTFT: 2 * time.Second, TPOT: 100 * time.Millisecond}
		h := c.watch(t, s)
		c.start(t)
		check := func(when string, want map[string]float64) {
			t.Helper()
			got := gather(t, c.registry)
			for series, v := range want {
				if g, ok := got[series]; !ok || g != v {
					t.Errorf("%s: %s is %v (there: %v), want %v", when, series, g, ok, v)
				}
			}
		}
		a, b := h.Settings().Members[0].Endpoint, h.Settings().Members[1].Endpoint
		check("fresh", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="a",state="up"}`:                      1,
			`caddy_llmlb_endpoint_state{endpoint="a",state="starting"}`:                0,
			`caddy_llmlb_endpoint_state{endpoint="a",state="degraded"}`:                0,
			`caddy_llmlb_endpoint_share{endpoint="a"}`:                                 1,
			`caddy_llmlb_state_changes_total{endpoint="a",to="down"}`:                  0,
			`caddy_llmlb_checks_total{endpoint="a",kind="readiness",result="passed"}`:  0,
			`caddy_llmlb_pool_all_down{}`:                                              0,
			`caddy_llmlb_slo_seconds{kind="ttft"}`:                                     2,
			`caddy_llmlb_slo_seconds{kind="tpot"}`:                                     0.1,
			`caddy_llmlb_prompt_tokens_total{cache="hit",endpoint="a"}`:                0,
			`caddy_llmlb_inter_token_seconds_count{endpoint="a"}`:                      0,
			`caddy_llmlb_scrape_errors_total{endpoint="a",reason="timeout"}`:           0,
			`caddy_llmlb_checks_total{endpoint="b",kind="canary",result="not_ready"}`:  0,
			`caddy_llmlb_checks_total{endpoint="b",kind="canary",result="unsuitable"}`: 0,
			`caddy_llmlb_checks_total{endpoint="b",kind="readiness",result="loading"}`: 0,
			`caddy_llmlb_state_changes_total{endpoint="b",to="drained"}`:               0,
			`caddy_llmlb_state_changes_total{endpoint="b",to="starting"}`:              0,
			`caddy_llmlb_scrape_errors_total{endpoint="b",reason="unreachable"}`:       0,
			`caddy_llmlb_prompt_tokens_total{cache="untold",endpoint="b"}`:             0,
			`caddy_llmlb_output_tokens_total{endpoint="b"}`:                            0,
			`caddy_llmlb_events_dropped_total{}`:                                       float64(eventsDropped.Load()),
		})

		for i := range 12 {
			ttft := 100 * time.Millisecond
			if i >= 6 {
				ttft = 5 * time.Second
			}
			a.ObserveCanary(time.Now(), llmlb.CheckResult{Began: time.Now(), Verdict: llmlb.CheckPassed, TTFT: ttft, Idle: true}, s.Checks.Canary)
		}
		got := gather(t, c.registry)
		if share := got[`caddy_llmlb_endpoint_share{endpoint="a"}`]; share <= 0 || share >= 1 {
			t.Errorf("a degraded server gets %v of its share", share)
		}
		check("degraded", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="a",state="degraded"}`:            1,
			`caddy_llmlb_endpoint_state{endpoint="a",state="up"}`:                  0,
			`caddy_llmlb_state_changes_total{endpoint="a",to="degraded"}`:          1,
			`caddy_llmlb_checks_total{endpoint="a",kind="canary",result="passed"}`: 12,
			`caddy_llmlb_endpoint_share{endpoint="b"}`:                             1,
			`caddy_llmlb_pool_all_down{}`:                                          0,
		})

		for range 2 {
			for _, e := range []*llmlb.Endpoint{a, b} {
				e.ObserveCanary(time.Now(), llmlb.CheckResult{Began: time.Now(), Verdict: llmlb.CheckFailed, Reason: "no answer"}, s.Checks.Canary)
			}
		}
		check("all out", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="a",state="down"}`:                1,
			`caddy_llmlb_endpoint_state{endpoint="b",state="down"}`:                1,
			`caddy_llmlb_state_changes_total{endpoint="b",to="down"}`:              1,
			`caddy_llmlb_checks_total{endpoint="b",kind="canary",result="failed"}`: 2,
			`caddy_llmlb_pool_all_down{}`:                                          1,
		})

		call := llmlb.NewCall(h.Pool(), h.Settings(), time.Now())
		call.Class, call.Outcome = "interactive", llmlb.Refused
		h.Pool().CountSLO(time.Now(), call, 0)
		a.ObserveGap(20*time.Millisecond, 1)
		check("after a refusal", map[string]float64{
			`caddy_llmlb_slo_requests_total{class="interactive",result="refused"}`: 1,
			`caddy_llmlb_slo_requests_total{class="interactive",result="met"}`:     0,
			`caddy_llmlb_inter_token_seconds_count{endpoint="a"}`:                  1,
			`caddy_llmlb_inter_token_seconds_sum{endpoint="a"}`:                    0.02,
		})

		p := h.Pool()
		p.Lock()
		lease := p.Reserve(b, time.Now(), llmlb.Work{Uncached: 10, Output: 10})
		p.Unlock()
		b.Drain(time.Now(), llmlb.DrainOrder{Limit: time.Minute})
		check("draining", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="b",state="draining"}`: 1,
			`caddy_llmlb_drain_overdue{endpoint="b"}`:                   0,
		})
		time.Sleep(time.Minute)
		p.Notice(time.Now())
		check("when the limit is over", map[string]float64{
			`caddy_llmlb_drain_overdue{endpoint="b"}`: 1,
			`caddy_llmlb_drain_overdue{endpoint="a"}`: 0,
		})
		lease.End(time.Now())
		p.Notice(time.Now())
		check("when it is empty", map[string]float64{
			`caddy_llmlb_endpoint_state{endpoint="b",state="drained"}`:   1,
			`caddy_llmlb_state_changes_total{endpoint="b",to="drained"}`: 1,
			`caddy_llmlb_drain_overdue{endpoint="b"}`:                    0,
		})
		c.end(t)
	})
}

// Every reason that a scrape can fail for has a word of its own kind in metrics,
// whatever the server has put into it.
func TestKindsOfScrapeFailures(t *testing.T) {
	failed := func(err error) reason { return errorReason(err, time.Second) }
	for _, tc := range []struct {
		why  reason
		want llmlb.ScrapeFailure
	}{
		{failed(context.DeadlineExceeded), llmlb.ScrapeTimeout},
		{failed(&net.OpError{Err: timedOut{}}), llmlb.ScrapeTimeout},
		{failed(syscall.ECONNREFUSED), llmlb.ScrapeUnreachable},
		{failed(syscall.ECONNRESET), llmlb.ScrapeUnreachable},
		{failed(io.EOF), llmlb.ScrapeUnreachable},
		{failed(&net.DNSError{IsNotFound: true}), llmlb.ScrapeUnreachable},
		{failed(x509.UnknownAuthorityError{}), llmlb.ScrapeTLS},
		{failed(x509.HostnameError{Certificate: new(x509.Certificate)}), llmlb.ScrapeTLS},
		{statusReason(http.StatusNotFound), llmlb.ScrapeStatus},
		{statusReason(http.StatusUnauthorized), llmlb.ScrapeStatus},
		{contentReason("text/html"), llmlb.ScrapeFormat},
		{contentReason("timeout/x509"), llmlb.ScrapeFormat},
		{tooLarge, llmlb.ScrapeFormat},
		{brokenJSON, llmlb.ScrapeFormat},
		{familyNotFound, llmlb.ScrapeNoLoad},
		{notReady, llmlb.ScrapeNoLoad},
		{outOfRange("vllm:num_requests_running"), llmlb.ScrapeValue},
	} {
		if got := tc.why.kind(); got != tc.want {
			t.Errorf("%q counts as %v, want %v", tc.why, got, tc.want)
		}
	}
}

// timedOut is a network's own.
type timedOut struct{}

func (timedOut) Error() string   { return "took too long" }
func (timedOut) Timeout() bool   { return true }
func (timedOut) Temporary() bool { return true }
