package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// Everybody asks about the same 4,000 tokens, ten times as often as one server
// could answer. Calls wait for the server that has them for as long as that is the
// shorter way, and soon all servers have them and about the same to do. One person
// who asks about them again and again stays at one server.
func TestAHotPrefixSpreadsThroughTheQueue(t *testing.T) {
	presets := []string{"8b-a100", "8b-h100"}
	if raceDetector {
		presets = presets[:1]
	}
	for _, preset := range presets {
		cfg, _ := engine.Preset(preset)
		one := capacityOf(t, cfg, func(w *world) func() (*guest, *prompt) {
			next := w.shared(4000, true)
			return func() (*guest, *prompt) { return nobody, next() }
		})
		for _, servers := range []int{4, 8} {
			t.Run(fmt.Sprintf("%s, %d servers", preset, servers), func(t *testing.T) {
				all, n := 0.0, seeds(6) // one run may be anywhere between 1.0 and 1.4
				for seed := range n {
					w := newWorld(t, seed, slices.Repeat([]engine.Config{cfg}, servers)...).scraped()
					w.queued()
					next := w.shared(4000, true)
					w.during(10*one, 0, 30*time.Second, func() (*guest, *prompt) { return nobody, next() })
					w.runTo(30 * time.Second)
					load := make([]float64, servers)
					for _, v := range w.visits {
						if v.machine != nil && v.placed > 10*time.Second {
							load[v.machine.number]++
						}
					}
					sum := 0.0
					for _, x := range load {
						sum += x
					}
					most := slices.Max(load) / (sum / float64(servers))
					t.Logf("seed %d: %v calls, the most at one server %.2f times the mean", seed, load, most)
					all += most
				}
				if most := all / float64(n); most > 1.25 {
					t.Errorf("on average one server got %.2f times the mean, want 1.25 at most", most)
				}
				w := newWorld(t, 1, slices.Repeat([]engine.Config{cfg}, servers)...).scraped()
				w.queued()
				w.closedLoop(1, time.Second, w.shared(4000, true))
				w.settle(100)
				if got := w.count(0, 100); slices.Max(got) != 100 {
					t.Errorf("one call at a time: calls went to %v, want all at one server", got)
				}
			})
		}
	}
}
