package bound

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// randomTrace makes up requests whose prompts begin alike more often than not, with
// pieces that grow, and answers that come back in later prompts.
func randomTrace(rnd *rand.Rand, requests, block int, conversations bool) *trace.Trace {
	t := &trace.Trace{Name: "random", Block: block}
	var at time.Duration
	var fresh uint64
	for i := range requests {
		at += time.Duration(rnd.IntN(4)) * time.Duration(rnd.IntN(20_000_000))
		r := trace.Request{At: at, Input: 1 + rnd.IntN(6*block), Output: 1 + rnd.IntN(1+rnd.IntN(120))}
		if i > 0 && rnd.IntN(4) > 0 {
			other := t.Requests[rnd.IntN(i)].Blocks
			r.Blocks = append(r.Blocks, other[:rnd.IntN(len(other)+1)]...)
		}
		if conversations && i > 0 && rnd.IntN(2) == 0 {
			r.Follows = 1 + rnd.IntN(i)
			r.Think = time.Duration(rnd.IntN(5_000_000))
			before := t.Requests[i-r.Follows]
			r.Blocks = append([]uint64(nil), before.Blocks...)
			r.Input = before.Input + before.Output + rnd.IntN(2*block)
		}
		want := (r.Input + block - 1) / block
		if rnd.IntN(2) == 0 {
			want = (r.Input + r.Output + block - 1) / block
		}
		for len(r.Blocks) < want {
			fresh++
			r.Blocks = append(r.Blocks, fresh)
		}
		r.Blocks = r.Blocks[:want]
		t.Requests = append(t.Requests, r)
	}
	return t
}

// outcome is what became of a request.
type outcome struct {
	ttft, e2e time.Duration
	cached    int
}

// pool is what became of a trace.
type pool struct {
	outcomes    []outcome
	end         time.Duration
	preemptions int
}

// serve sends each request of a trace to a replica picked at random.
func serve(tb testing.TB, t *trace.Trace, c engine.Config, replicas int, rnd *rand.Rand) pool {
	tb.Helper()
	const never = time.Duration(1<<63 - 1)
	machines := make([]*engine.Replica, replicas)
	due := make([]time.Duration, replicas) // the end of the step in flight
	for m := range machines {
		r, err := engine.New(c)
		if err != nil {
			tb.Fatal(err)
		}
		machines[m], due[m] = r, never
	}
	arrive := make([]time.Duration, len(t.Requests))
	for i, r := range t.Requests {
		arrive[i] = r.At
		if r.Follows > 0 {
			arrive[i] = never
		}
	}
	p := pool{outcomes: make([]outcome, len(t.Requests))}
	came := make([]time.Duration, len(t.Requests))
	begin := func(m int, now time.Duration) {
		if s, ok := machines[m].Begin(now); ok {
			due[m] = now + s.Duration
		}
	}
	var events []engine.Event
	for {
		now, m, next := never, -1, -1
		for i, d := range due {
			if d < now {
				now, m = d, i
			}
		}
		for i, a := range arrive {
			if a < now {
				now, m, next = a, -1, i
			}
		}
		switch {
		case now == never:
			return p
		case next >= 0:
			arrive[next] = never
			came[next] = now
			r := t.Requests[next]
			to := rnd.IntN(replicas)
			err := machines[to].Add(now, engine.Request{ID: uint64(next), Input: r.Input, Output: r.Output, Blocks: engineBlocks(t, &r, c.BlockSize)})
			if err != nil {
				tb.Fatal(err)
			}
			if due[to] == never {
				begin(to, now)
			}
		default:
			due[m] = never
			p.end = now
			events = machines[m].End(events[:0])
			for _, e := range events {
				o := &p.outcomes[e.ID]
				o.cached = e.Cached
				if e.First {
					o.ttft = now - came[e.ID]
				}
				if !e.Finished {
					continue
				}
				o.e2e = now - came[e.ID]
				p.preemptions += e.Preemptions
				for i, r := range t.Requests {
					if r.Follows > 0 && i-r.Follows == int(e.ID) {
						arrive[i] = now + r.Think
					}
				}
			}
			begin(m, now)
		}
	}
}

// engineBlocks cuts pieces into the engine's blocks. A block that the piece fills
// only in part is of no id.
func engineBlocks(t *trace.Trace, r *trace.Request, size int) []uint64 {
	n := min(len(r.Blocks)*t.Block, r.Input+r.Output) / size
	blocks := make([]uint64, n)
	for i := range blocks {
		piece := i * size / t.Block
		blocks[i] = r.Blocks[piece]<<16 + uint64(i)
	}
	return blocks
}
