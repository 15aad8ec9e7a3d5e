package engine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkReplay serves 12,000 requests on 8 replicas in virtual time. Sizes,
// reuse and rate are like those of a busy chat service; each request goes to
// where the least is left to compute, so that the pool stays out of overload.
func BenchmarkReplay(b *testing.B) {
	for _, bc := range []struct {
		name      string
		blockSize int
		store     func() *Store
	}{
		{"block=512", 512, nil},
		{"block=16", 16, nil},
		{"block=16,store=3.6M", 16, func() *Store { return NewStore(8*448_000, 16) }},
		{"block=16,store=all", 16, func() *Store { return NewStore(0, 16) }},
	} {
		b.Run(bc.name, func(b *testing.B) {
			reqs, at := workload(12_000, bc.blockSize)
			cfg, _ := Preset("8b-h100")
			cfg.BlockSize = bc.blockSize
			var steps, tokens, hits, queries int64
			b.ReportAllocs()
			for b.Loop() {
				if bc.store != nil {
					cfg.Store = bc.store()
				}
				steps, tokens, hits, queries = 0, 0, 0, 0
				for _, r := range replayPool(b, cfg, 8, reqs, at) {
					s := r.Stats()
					steps += s.Steps
					tokens += s.GeneratedTokens
					hits += s.HitTokens
					queries += s.QueryTokens
				}
			}
			perRun := float64(b.Elapsed()) / float64(b.N)
			b.ReportMetric(perRun/float64(steps), "ns/step")
			b.ReportMetric(perRun/float64(tokens), "ns/token")
			b.ReportMetric(float64(tokens)/float64(steps), "tokens/step")
			b.ReportMetric(float64(hits)/float64(queries), "hits/token")
		})
	}
}

// BenchmarkDecodeStep is one step of 64 sequences that only decode.
func BenchmarkDecodeStep(b *testing.B) {
	cfg, _ := Preset("8b-h100")
	cfg.KVTokens = 1_000_000
	r, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	for id := range uint64(64) {
		add(b, r, Request{ID: id, Input: 100, Output: 10_000})
	}
	r.Begin(0)
	ev := r.End(nil)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := r.Begin(0); !ok {
			b.Fatal("ran dry")
		}
		ev = r.End(ev[:0])
		for _, e := range ev {
			if e.Finished {
				add(b, r, Request{ID: e.ID, Input: 100, Output: 10_000})
			}
		}
	}
}

// workload makes conversations: one system prompt for all, turns of which four
// in ten repeat what came before, prompts of 12,000 tokens in the mean with a
// long tail, and answers of 340, at 7.8 requests a second.
func workload(n, blockSize int) ([]Request, []time.Duration) {
	const systemPrompt = 512
	rng := rand.New(rand.NewPCG(3, 5))
	reqs := make([]Request, n)
	at := make([]time.Duration, n)
	now := time.Duration(0)
	for i := range reqs {
		now += time.Duration(rng.ExpFloat64() * float64(time.Second) / 7.8)
		in := min(120_000, 520+int(6400*math.Exp(1.08*rng.NormFloat64())))
		session, shared := uint64(i+1)<<32, 0 //nolint:wastedassign // for those that begin one
		if i > 400 && rng.IntN(10) < 4 {
			before := &reqs[i-1-rng.IntN(400)]
			session, shared = before.Blocks[len(before.Blocks)-1]&^0xffffffff, before.Input
			in = min(120_000, shared+in/4)
		}
		ids := make([]uint64, in/blockSize)
		for j := range ids {
			switch {
			case (j+1)*blockSize <= systemPrompt:
				ids[j] = uint64(j) + 1
			default:
				ids[j] = session | uint64(j)
			}
		}
		out := max(1, 340+int(200*rng.NormFloat64()))
		reqs[i] = Request{ID: uint64(i), Blocks: ids, Input: in, Output: out}
		at[i] = now
	}
	return reqs, at
}

// replayPool gives each request to the replica that needs the least time for
// its prompt and returns the replicas when all is done.
func replayPool(b *testing.B, cfg Config, replicas int, reqs []Request, at []time.Duration) []*Replica {
	const idle = time.Duration(math.MaxInt64)
	pool := make([]*Replica, replicas)
	ends := make([]time.Duration, replicas) // of the steps in flight
	for i := range pool {
		r, err := New(cfg)
		if err != nil {
			b.Fatal(err)
		}
		pool[i], ends[i] = r, idle
	}
	begin := func(i int, now time.Duration) {
		ends[i] = idle
		if st, ok := pool[i].Begin(now); ok {
			ends[i] = now + st.Duration
		}
	}
	var ev []Event
	for next := 0; ; {
		first := 0
		for i, end := range ends {
			if end < ends[first] {
				first = i
			}
		}
		now := ends[first]
		if next < len(reqs) && at[next] < now {
			now = at[next]
			best, least := 0, math.MaxInt
			for i, r := range pool {
				if load := r.Pending() - r.Match(reqs[next].Blocks); load < least {
					best, least = i, load
				}
			}
			if err := pool[best].Add(now, reqs[next]); err != nil {
				b.Fatal(err)
			}
			next++
			if ends[best] == idle {
				begin(best, now)
			}
			continue
		}
		if now == idle {
			return pool
		}
		ev = pool[first].End(ev[:0])
		begin(first, now)
	}
}
