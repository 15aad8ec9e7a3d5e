package engine

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkReplay serves 12,000 requests of trace-like sizes on 8 replicas in
// virtual time, with blocks of 512 tokens and of 16.
func BenchmarkReplay(b *testing.B) {
	for _, bc := range []struct {
		name      string
		blockSize int
	}{{"block=512", 512}, {"block=16", 16}} {
		b.Run(bc.name, func(b *testing.B) {
			reqs, at := workload(12_000, bc.blockSize)
			b.ReportAllocs()
			for b.Loop() {
				var steps int64
				for i := range 8 {
					steps += replayOne(b, reqs, at, bc.blockSize, i)
				}
				b.ReportMetric(float64(steps), "steps/op")
			}
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

// workload makes conversations: a shared system prompt, turns that repeat what
// came before, and answers of a few hundred tokens.
func workload(n, blockSize int) ([]Request, []time.Duration) {
	rng := rand.New(rand.NewPCG(3, 5))
	reqs := make([]Request, n)
	at := make([]time.Duration, n)
	now := time.Duration(0)
	for i := range reqs {
		now += time.Duration(rng.ExpFloat64() * float64(300*time.Millisecond))
		in := 1000 + int(rng.ExpFloat64()*11_000)
		in = min(in, 120_000)
		session := uint64(rng.IntN(n / 2))
		ids := make([]uint64, in/blockSize)
		for j := range ids {
			if j*blockSize < 512 {
				ids[j] = uint64(j) + 1
			} else {
				ids[j] = (session+1)<<32 | uint64(j)
			}
		}
		reqs[i] = Request{ID: uint64(i), Blocks: ids, Input: in, Output: 1 + int(rng.ExpFloat64()*340)}
		at[i] = now
	}
	return reqs, at
}

func replayOne(b *testing.B, reqs []Request, at []time.Duration, blockSize, replica int) int64 {
	cfg, _ := Preset("8b-h100")
	cfg.BlockSize = blockSize
	r, err := New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	var ev []Event
	now := time.Duration(0)
	next := replica
	for {
		for next < len(reqs) && at[next] <= now {
			if err := r.Add(at[next], reqs[next]); err != nil {
				b.Fatal(err)
			}
			next += 8
		}
		st, ok := r.Begin(now)
		if !ok {
			if next >= len(reqs) {
				return r.Stats().Steps
			}
			now = at[next]
			continue
		}
		now += st.Duration
		ev = r.End(ev[:0])
	}
}
