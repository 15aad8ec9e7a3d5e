package selection

import (
	"math"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// teach has the endpoints show, all at once, how fast they compute prompts. Their
// floor is the assumed one.
func (w *world) teach(speeds ...float64) {
	for range 40 {
		sent, last := w.now, w.now
		for i, speed := range speeds {
			w.pool.Lock()
			l := w.pool.Reserve(w.settings.Members[i].Endpoint, sent, llmlb.Work{Uncached: 5000, Output: 1})
			w.pool.Unlock()
			c := w.call(llmlb.Features{InputTokens: 5000})
			c.Lease = l
			done := sent.Add(time.Duration((llmlb.PriorFloor + 5000/speed) * float64(time.Second)))
			c.SawFirstToken(done)
			c.EndAttempt(done, llmlb.Served)
			if done.After(last) {
				last = done
			}
		}
		w.now = last
	}
}

// The example of docs/selection.md comes out as it stands there.
func TestTheDocumentedExample(t *testing.T) {
	for _, tc := range []struct {
		before   int
		want     int // index of the server
		decision string
		costs    [3]float64
	}{
		{3000, 1, "warm", [3]float64{710, 482, 2221}},
		{6000, 0, "spill:load", [3]float64{710, 813, 2221}},
	} {
		w := newWorld(t, addresses(3)...)
		w.teach(10_000, 10_000, 3_000)
		w.scrapeAll(0, 0, 0.1)
		w.scrapeAll(0, 0, 0.1)
		gpu2 := w.endpoint(addresses(3)[1])
		p := prompt(part{"the first 4,000", 4096}, part{"the rest", 304})
		w.pool.Lock()
		cache := gpu2.CacheID()
		w.pool.Unlock()
		indexOf(w.pool).learn(p.Blocks[:llmlb.BlockCount(4*4096)], cache, llmlb.Unknown, w.now, true)
		p.InputTokens, p.PromptBytes = 4400, 4400*4*4096/4000 // 4,000 tokens fill the blocks
		p.MaxOutputTokens = 512
		w.occupy(addresses(3)[1], 11)
		w.pool.Lock()
		w.pool.Reserve(gpu2, w.now, llmlb.Work{Uncached: tc.before, Output: 1}) // the twelfth, still in prefill
		w.pool.Unlock()

		c := w.grant(p)
		k := w.pool.Explain()[0]
		if where(c) != addresses(3)[tc.want] || k.Decision != tc.decision {
			t.Errorf("with %d tokens before it: %s to %s", tc.before, k.Decision, where(c))
		}
		for i, want := range tc.costs {
			name := w.endpoint(addresses(3)[i]).Name()
			for _, s := range k.Candidates {
				if s.Endpoint == name && math.Abs(*s.Cost-want) > 0.01*want {
					t.Errorf("with %d tokens before it gpu-%d costs %.0f ms, documented are %.0f", tc.before, i+1, *s.Cost, want)
				}
			}
		}
	}
}
