package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Each use of chance has its own stream of numbers, so that one more draw here
// does not change what comes there.
const (
	streamDither uint64 = iota + 1
	streamArrivals
	streamOrder
	streamLengths
	streamThink
)

func stream(seed, purpose uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, purpose)) }

// Dither is the trace with each arrival put off by something between 0 and
// within, each alike. It undoes the ticks of a trace whose clock is coarse: there
// all of a tick's requests come in one instant, which is a test of bursts and not
// of a steady load. Requests that follow others follow the same ones.
func (t *Trace) Dither(within time.Duration, seed uint64) *Trace {
	c := t.copied()
	if within <= 0 {
		return c
	}
	r := stream(seed, streamDither)
	for i := range c.Requests {
		if c.Requests[i].Follows == 0 {
			c.Requests[i].At += time.Duration(r.Int64N(int64(within)))
		}
	}
	c.sort()
	return c
}

// Speed is the trace at x times its rate: arrivals and think times are divided by
// x. It panics where x is not a number above 0.
func (t *Trace) Speed(x float64) *Trace {
	if !(x > 0) || math.IsInf(x, 1) {
		panic(fmt.Sprintf("trace: speed %v", x))
	}
	c := t.copied()
	if x == 1 {
		return c
	}
	scale := func(d time.Duration) time.Duration {
		return time.Duration(min(math.Round(float64(d)/x), float64(math.MaxInt64/2)))
	}
	for i := range c.Requests {
		q := &c.Requests[i]
		q.At, q.Think = scale(q.At), scale(q.Think)
	}
	return c
}

// First is what arrives before d, and what follows that, however late. It may be
// nothing.
func (t *Trace) First(d time.Duration) *Trace {
	c := &Trace{Name: t.Name}
	places := make([]int, len(t.Requests)) // in c, or absent
	for i, q := range t.Requests {
		places[i] = absent
		if q.Follows > 0 {
			before := places[i-q.Follows]
			if before == absent {
				continue
			}
			q.Follows = len(c.Requests) - before
		} else if q.At >= d {
			continue
		}
		if len(q.Blocks) > 0 {
			c.Block = t.Block
		}
		places[i] = len(c.Requests)
		c.Requests = append(c.Requests, q)
	}
	return c
}

// copied shares nothing with t that is changed later: Blocks are never written.
func (t *Trace) copied() *Trace {
	c := *t
	c.Requests = slices.Clone(t.Requests)
	return &c
}

// sort brings the requests in the order of their arrival, those at the same time
// in the order in which they are. A request that follows another is put where its
// own At is, but after the other.
func (t *Trace) sort() {
	n := len(t.Requests)
	at, order := make([]time.Duration, n), make([]int, n)
	for i, q := range t.Requests {
		order[i] = i
		at[i] = q.At
		if q.Follows > 0 {
			at[i] = max(at[i], at[i-q.Follows])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	places := make([]int, n)
	for place, i := range order {
		places[i] = place
	}
	sorted := make([]Request, n)
	for place, i := range order {
		q := t.Requests[i]
		if q.Follows > 0 {
			q.Follows = place - places[i-q.Follows]
		}
		sorted[place] = q
	}
	t.Requests = sorted
}
