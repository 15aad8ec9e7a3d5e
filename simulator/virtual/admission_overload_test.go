package virtual

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// doors are the ways in that are held against each other.
var doors = []struct {
	name string
	open func(*world)
}{
	{"queue", func(w *world) { w.queued() }},
	{"queue off", func(*world) {}},
	{"least_conn", newLeastConn},
}

// middle is the median.
func middle(values []float64) float64 {
	values = slices.Clone(values)
	slices.Sort(values)
	return values[len(values)/2]
}

// Four servers are asked for twice what they can do, for two minutes: three fifths
// of the tokens for summaries that nobody waits for, the rest for edits. With the
// queue the people who edit notice next to nothing, and the servers do as much in
// all as without it.
func TestEditsStayFastWhileThePoolIsOverrun(t *testing.T) {
	const horizon = 2 * time.Minute
	// The same goes on for a little, so that those who came last may have their
	// first token too. An edit without one then counts as the whole horizon; but in
	// the pools that are held against the queue, as what it has waited.
	const after = 10 * time.Second
	whole := func(time.Duration) time.Duration { return horizon }
	for _, preset := range []string{"8b-h100", "70b-h100x4"} {
		t.Run(preset, func(t *testing.T) {
			if testing.Short() || raceDetector {
				t.Skip("takes some seconds, and has one goroutine")
			}
			cfg, _ := engine.Preset(preset)
			one := capacityOf(t, cfg, func(w *world) func() (*guest, *prompt) { return newMixed(w, 16).both })
			p99, tokens := map[string][]float64{}, map[string][]float64{}
			for _, d := range doors {
				var p50, summaries []float64
				for seed := range seeds(5) {
					w := newWorld(t, seed, four(preset)...).scraped()
					d.open(w)
					w.during(2*4*one, 0, horizon+after, newMixed(w, 64).both)
					w.runTo(horizon)
					tokens[d.name] = append(tokens[d.name], float64(w.tokensServed())/1e6)
					summaries = append(summaries, float64(w.many(func(v *visit) bool { return servedIn(v) && !isEdit(v) })))
					w.runTo(horizon + after)
					late := asLong
					if d.name == "queue" {
						late = whole
					}
					ttft := w.ttft(0, horizon, isEdit, late)
					p50 = append(p50, ttft.quantile(0.5))
					p99[d.name] = append(p99[d.name], ttft.quantile(0.99))
				}
				t.Logf("%-10s edits' TTFT P50 %.2f s, P99 %.2f s (worst %.2f s); %.1f M tokens served (least %.1f); %.0f summaries finished",
					d.name, middle(p50), middle(p99[d.name]), slices.Max(p99[d.name]), middle(tokens[d.name]), slices.Min(tokens[d.name]), middle(summaries))
			}
			for i := range p99["queue"] {
				if on, off := p99["queue"][i], p99["queue off"][i]; on > 0.1*off {
					t.Errorf("seed %d: the edits' P99 of TTFT was %.2f s with the queue and %.2f s without, want 90 %% less", i, on, off)
				}
				if on, off := tokens["queue"][i], tokens["queue off"][i]; on < 0.95*off {
					t.Errorf("seed %d: %.2f million tokens were served with the queue and %.2f without, want no more than 5 %% less", i, on, off)
				}
			}
		})
	}
}
