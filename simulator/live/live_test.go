package live

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/bound"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

const (
	// seeds are the runs in virtual time of each strategy. They differ by when
	// servers are scraped and by who wins where servers are equal.
	seeds = 8

	// within is how far the means of both worlds may be from each other, and
	// distinct how far those of two strategies must be in virtual time for their
	// order to be held against the real one.
	within, distinct = 0.15, 0.05
)

// A slice of a trace comes to four servers, by the default strategy, by the simple
// rule, and by two of Caddy's own policies. What virtual time says of it is so: the
// strategies come in the same order, and the mean time to first token is within
// 15 % for each.
func TestVirtualTimeTellsTheTruth(t *testing.T) {
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) { compare(t, need(t, w)) })
	}
}

func compare(t *testing.T, s setting) {
	t.Helper()
	list := make([]*comparison, 0, 4)
	for _, strategy := range []string{"work", "prefix_spill", "least_conn", "round_robin"} {
		c := &comparison{strategy: strategy}
		for seed := range uint64(seeds) {
			c.virtual = append(c.virtual, virtually(s.virtually(t, strategy, seed+1).Records))
		}
		list = append(list, c)
	}
	bodies := make([][]byte, len(s.trace.Requests))
	for i := range bodies {
		bodies[i] = body(s.trace, i)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	warmUp(t, s)
	// Round by round, so that another program's moment does not hit one strategy.
	for round := range s.rounds {
		for _, c := range list {
			p := startPool(t, s, fmt.Sprintf("%s-%s-%d", s.name, c.strategy, round+1), c.strategy)
			c.live = append(c.live, really(t, s.trace, p.replay(s.trace, bodies)))
		}
	}
	t.Logf("%d requests in %v, %d servers, load %.0f %% at least, time compressed %g times\n%s",
		len(bodies), s.trace.Requests[len(bodies)-1].At.Round(time.Millisecond), s.servers,
		100*bound.LoadFactor(s.trace, s.config(t), s.servers), s.compress, table(list))
	for _, c := range list {
		if off := c.off(); math.Abs(off) > within {
			t.Errorf("%s: the mean time to first token is %v, in virtual time %v", c.strategy, meanOf(c.live), meanOf(c.virtual))
		}
	}
	slices.SortFunc(list, func(a, b *comparison) int { return cmp.Compare(meanOf(a.virtual), meanOf(b.virtual)) })
	for i, a := range list {
		for _, b := range list[i+1:] {
			if float64(meanOf(b.virtual)) > (1+distinct)*float64(meanOf(a.virtual)) && meanOf(b.live) <= meanOf(a.live) {
				t.Errorf("%s is better than %s in virtual time (%v and %v), and not in truth (%v and %v)",
					a.strategy, b.strategy, meanOf(a.virtual), meanOf(b.virtual), meanOf(a.live), meanOf(b.live))
			}
		}
	}
}

// warmUp has the process load what it loads once: a vocabulary, when the first
// prompt comes.
func warmUp(t *testing.T, s setting) {
	t.Helper()
	few := &trace.Trace{Requests: make([]trace.Request, 20)}
	var bodies [][]byte
	for i := range few.Requests {
		few.Requests[i] = trace.Request{At: time.Duration(i) * 100 * time.Millisecond, Input: 4000, Output: 10}
		bodies = append(bodies, body(few, i))
	}
	really(t, few, startPool(t, s, s.name+"-warm-up", "work").replay(few, bodies))
}
