package virtual

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What metrics say of a server may be old, frozen, wrong or nothing at all. One
// such server among four equal ones must not draw work to it, which is what a
// server that looks idle would do, and must not keep the pool from working.
func TestMetricsThatAreWrongDrawNoWork(t *testing.T) {
	cfg, _ := engine.Preset(defaultEngine)
	servers := []engine.Config{cfg, cfg, cfg, cfg}
	chat := lengths{500, 4000, 64, 200}
	full := capacity(t, chat, servers...)

	const calls = 700
	run := func(seed uint64, load func(*world), tell func(*llmlb.Signals) bool) (share, ttft float64) {
		w := newWorld(t, seed, servers...).scraped()
		liar := w.machines[w.rng.IntN(len(servers))]
		w.lies(liar, tell)
		load(w)
		w.settle(calls)
		work := w.work(100, calls)
		return work[liar.number] / (work[0] + work[1] + work[2] + work[3]), w.meanTTFT(100, calls)
	}

	for _, load := range []struct {
		name string
		load func(*world)
	}{
		{"128 clients", func(w *world) { w.closedLoop(128, time.Second, w.prompts(chat)) }},
		{"90 % of the pool's capacity", func(w *world) { w.openLoop(0.9*full, w.prompts(chat)) }},
		{"80 %, half of it from other gateways", func(w *world) {
			w.openLoop(0.4*full, w.prompts(chat))
			w.neighbours(0.4*full, w.prompts(chat))
		}},
	} {
		// Four honest servers are what the others are held against.
		var honest [2]float64
		for seed := range seeds(2) {
			_, honest[seed] = run(seed, load.load, nil)
		}
		for _, tc := range []struct {
			name string
			tell func() func(*llmlb.Signals) bool
		}{
			{"absent", func() func(*llmlb.Signals) bool {
				return func(*llmlb.Signals) bool { return false }
			}},
			{"stale", func() func(*llmlb.Signals) bool {
				told := 0
				return func(*llmlb.Signals) bool { told++; return told <= 2 }
			}},
			{"frozen at idle", func() func(*llmlb.Signals) bool {
				var first *llmlb.Signals
				return func(s *llmlb.Signals) bool {
					if first == nil {
						idle := llmlb.NoSignals(s.At)
						idle.Engine, idle.ProcessStart = s.Engine, s.ProcessStart
						idle.Running, idle.Waiting, idle.KVUsage = 0, 0, 0
						idle.KVCapacity, idle.GenerationTokens = s.KVCapacity, 0
						first = &idle
					}
					at := s.At
					*s = *first
					s.At = at
					return true
				}
			}},
			{"lying", func() func(*llmlb.Signals) bool {
				return func(s *llmlb.Signals) bool {
					s.Running, s.Waiting, s.KVUsage, s.KVUsageMax = 0, 0, 0, 0
					return true
				}
			}},
			{"comes and goes", func() func(*llmlb.Signals) bool {
				told := 0
				return func(*llmlb.Signals) bool { told++; return told%9 == 0 }
			}},
		} {
			t.Run(load.name+", "+tc.name, func(t *testing.T) {
				for seed := range seeds(2) {
					share, ttft := run(seed, load.load, tc.tell())
					t.Logf("%.1f %% of the work, mean TTFT %.2f of that with honest metrics", 100*share, ttft/honest[seed])
					if share > 0.29 {
						t.Errorf("seed %d: it got %.0f %% of the work, want no more than a fair share of 25", seed, 100*share)
					}
					if ttft > 1.5*honest[seed] {
						t.Errorf("seed %d: the mean time to first token was %.0f ms, with honest metrics %.0f ms", seed, 1000*ttft, 1000*honest[seed])
					}
				}
			})
		}
	}
}
