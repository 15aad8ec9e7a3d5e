package engine

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"testing"
	"time"
)

// A run is the same byte for byte on every machine and after every change that
// only makes the engine faster. Whoever changes on purpose what an engine does
// writes the new digests here; results measured before are then out of date.
func TestDigest(t *testing.T) {
	for _, tc := range []struct {
		name  string
		early bool
		want  uint64
	}{
		{"found when the step ends", false, 0xc762c67b19bbe749},
		{"found when the step begins", true, 0x47a4b3d42f5f7c0f},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := digest(t, tc.early); got != tc.want {
				t.Errorf("digest of the run is %#x, want %#x", got, tc.want)
			}
		})
	}
}

// digest replays conversations that come, go on, and are left, on an engine
// short of memory, and hashes all that the engine says. The workload is made of
// whole numbers alone, so that it is the same everywhere too.
func digest(t *testing.T, early bool) uint64 {
	t.Helper()
	cfg, _ := Preset("8b-h100")
	cfg.KVTokens, cfg.MaxSeqs, cfg.MaxBatchedTokens, cfg.PublishEarly = 60_000, 24, 4096, early
	r, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h := fnv.New64a()
	number := func(values ...int64) {
		var b [8]byte
		for _, v := range values {
			binary.LittleEndian.PutUint64(b[:], uint64(v))
			h.Write(b[:])
		}
	}
	rng := rand.New(rand.NewPCG(13, 17))
	var now, next time.Duration
	var events []Event
	var ids uint64
	for ids < 3000 || r.Stats().Running+r.Stats().Waiting > 0 {
		for ids < 3000 && next <= now {
			ids++
			in := 1 + rng.IntN(6000)
			if rng.IntN(20) == 0 {
				in += rng.IntN(30_000)
			}
			blocks := make([]uint64, in/cfg.BlockSize+rng.IntN(20))
			session := 1 + rng.Uint64N(40)
			for i := range blocks {
				blocks[i] = uint64(i)
				if i > 20 {
					blocks[i] |= session << 32
				}
			}
			if err := r.Add(next, Request{ID: ids, Blocks: blocks, Input: in, Output: 1 + rng.IntN(700)}); err != nil {
				t.Fatal(err)
			}
			next += time.Duration(rng.IntN(350)) * time.Millisecond
		}
		st, ok := r.Begin(now)
		if !ok {
			now = next
			continue
		}
		if rng.IntN(150) == 0 {
			id := ids - rng.Uint64N(min(ids, 30))
			number(int64(id))
			if r.Abort(id) {
				number(1)
			}
		}
		now += st.Duration
		number(int64(st.Duration), int64(st.PrefillTokens), int64(st.DecodeTokens), int64(st.Sequences))
		events = r.End(events[:0])
		for _, e := range events {
			number(int64(e.ID), int64(e.Generated), int64(e.Cached), int64(e.Arrived), int64(e.Scheduled), int64(e.Preemptions))
			if e.Finished {
				number(1)
			}
		}
		s := r.Stats()
		number(int64(s.FreeBlocks), int64(s.IdleBlocks), int64(s.CachedTokens), s.HitTokens, s.ReusedTokens, s.LostTokens, s.Preemptions, s.Evictions)
	}
	if s := r.Stats(); s.Preemptions == 0 || s.Evictions == 0 || s.HitTokens == 0 || s.LostTokens == 0 {
		t.Fatalf("the run exercised too little: %+v", s)
	} else {
		t.Logf("%v %+v", now, s)
	}
	return h.Sum64()
}
