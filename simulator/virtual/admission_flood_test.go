package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// A thousand calls come within a second while somebody else uses the service a
// little. That they all come from one tenant makes it no worse for the other than
// if they came from twenty.
func TestAFloodIsItsSendersProblem(t *testing.T) {
	const start, mine, calls = 20 * time.Second, 0.05, 1000
	chat := lengths{500, 4000, 64, 200}
	for _, preset := range []string{"8b-h100", "70b-h100x4"} {
		t.Run(preset, func(t *testing.T) {
			if testing.Short() || raceDetector {
				t.Skip("takes some seconds, and has one goroutine")
			}
			full := capacity(t, chat, four(preset)...)
			took := time.Duration(calls / ((1 - mine) * full) * float64(time.Second))
			// run returns my P99 while the thousand come within a time, from so many
			// tenants who have all been there before.
			run := func(seed uint64, within time.Duration, tenants int, bounds queue.Bounds) float64 {
				w := newWorld(t, seed, four(preset)...).scraped()
				w.queued().bounds = bounds
				next := w.prompts(chat)
				of := func(i int) *guest { return &guest{class: interactive, tenant: fmt.Sprint(i)} }
				me := of(-1)
				w.during(mine*full, 0, start+took, func() (*guest, *prompt) { return me, next() })
				w.during(0.5*full, 0, start, func() (*guest, *prompt) { return of(w.rng.IntN(20)), next() })
				for range calls {
					at := start + time.Duration(w.rng.Float64()*float64(within))
					w.after(at, arrives, func() { w.bring(of(w.rng.IntN(tenants)), next(), nil) })
				}
				w.runTo(start + took)
				return w.ttft(start, start+took, func(v *visit) bool { return v.guest == me }, asLong).quantile(0.99)
			}
			var one, twenty, evenly, even []float64
			for seed := range seeds(5) {
				room := queue.Bounds{Calls: 2 * calls}
				a, b := run(seed, time.Second, 1, room), run(seed, time.Second, 20, room)
				one, twenty = append(one, a), append(twenty, b)
				evenly = append(evenly, run(seed, time.Duration(float64(took)/1.2), 20, room))
				even = append(even, run(seed, took, 20, room))
			}
			// The middle of some runs: in one alone a single long prompt may decide.
			if a, b := middle(one), middle(twenty); a > 1.2*b {
				t.Errorf("my P99 of TTFT was %.2f s beside one tenant's flood and %.2f s beside twenty tenants', want no more than 20 %% above", a, b)
			}
			t.Logf("my P99 of TTFT, median (worst) of the seeds: %.2f (%.2f) s beside one tenant, %.2f (%.2f) s beside twenty; as many calls evenly, at 1.2 times the capacity %.2f (%.2f) s, at the capacity %.2f (%.2f) s",
				middle(one), slices.Max(one), middle(twenty), slices.Max(twenty), middle(evenly), slices.Max(evenly), middle(even), slices.Max(even))
		})
	}
}
