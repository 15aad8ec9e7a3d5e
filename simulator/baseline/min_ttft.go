package baseline

import (
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// minTTFT is the placement of Mooncake's Conductor (Qin et al., "Mooncake: Trading
// More Storage for Less Computation", FAST '25, algorithm 1): the server where the
// first token is estimated to come earliest,
//
//	sum of the estimated prefill times of what waits there + that of the request
//
// by a model of prefill time fitted offline, of how long a prompt is and how much
// of it is cached. The fit is that of the first server: its operator has measured
// one. What a server is at counts less by the time since it began.
//
// With perfect signals it knows every server's own speed and what is cached. Where
// there are other gateways it goes by all their tokens that are still to be
// computed; its own requests it knows one by one, which says more.
type minTTFT struct{ lines []line }

// line is what waits for its prefill on one server, in the order of arrival.
type line struct {
	fit   engine.Config
	jobs  []job
	total time.Duration
	since time.Duration // when the first of them is thought to have begun
}

type job struct {
	id    uint64
	takes time.Duration
}

func (m *minTTFT) Pick(v *virtual.View) int {
	if m.lines == nil {
		m.lines = make([]line, len(v.Servers))
		for i := range m.lines {
			m.lines[i].fit = v.Servers[i].Profile
		}
	}
	return least(v, func(i int, s *virtual.Server) float64 {
		wait := m.lines[i].wait(v.Now)
		if v.Oracle && v.Gateways > 1 {
			wait = backlog(&s.Profile, s.Pending)
		}
		return float64(wait + prefill(&s.Profile, uncached(v, s), s.Match))
	})
}

// Placed, FirstToken and Ended are virtual.Follower.
func (m *minTTFT) Placed(now time.Duration, r *virtual.Ask, server int) {
	l := &m.lines[server]
	if len(l.jobs) == 0 {
		l.since = now
	}
	j := job{r.ID, prefill(&l.fit, r.Input-r.Match, r.Match)}
	l.jobs = append(l.jobs, j)
	l.total += j.takes
}

func (m *minTTFT) FirstToken(now time.Duration, r *virtual.Ask, server int) {
	l := &m.lines[server]
	i := slices.IndexFunc(l.jobs, func(j job) bool { return j.id == r.ID })
	l.total -= l.jobs[i].takes
	l.jobs = slices.Delete(l.jobs, i, i+1)
	l.since = now
}

func (*minTTFT) Ended(time.Duration, *virtual.Ask, int) {}

func (l *line) wait(now time.Duration) time.Duration {
	if len(l.jobs) == 0 {
		return 0
	}
	return l.total - min(l.jobs[0].takes, now-l.since)
}

// prefill is how long n tokens take after c cached ones on an idle server: its
// share of the weights for each step, and the square that is in attention.
func prefill(p *engine.Config, n, c int) time.Duration {
	k := &p.Costs
	steps := float64((n + p.MaxBatchedTokens - 1) / p.MaxBatchedTokens)
	context := float64(c) + float64(n)/2
	return milliseconds(max(k.Base+k.Floor, steps*(k.Base+k.Weights)+k.Token*float64(n)) +
		k.Pair*float64(n)*context + steps*(k.Context*context+k.Sequence))
}

// backlog is how long n tokens take of prompts of which nothing else is known.
func backlog(p *engine.Config, n int) time.Duration {
	k := &p.Costs
	return milliseconds(float64(n) * (k.Token + (k.Base+k.Weights)/float64(p.MaxBatchedTokens)))
}

func milliseconds(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
