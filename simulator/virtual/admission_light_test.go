package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// Where servers can do what is asked, the queue is not to be noticed: not in the
// time to first token, not in the time to the last, and not in what is served.
// That holds too where nobody sees a first token because answers come whole, and
// where there are no metrics to read. Edits are only asked for as often as servers
// can do without the queue: close to their limit it serves far more of them.
func TestTheQueueCostsNothingWhereThereIsRoom(t *testing.T) {
	const begin, end, horizon = 15 * time.Second, 55 * time.Second, time.Minute
	chat := func(w *world) func() (*guest, *prompt) {
		next := w.prompts(lengths{500, 4000, 64, 200})
		return func() (*guest, *prompt) { return nobody, next() }
	}
	edits := func(w *world) func() (*guest, *prompt) { return newMixed(w, 64).edit }
	for _, k := range []struct {
		name    string
		next    func(*world) func() (*guest, *prompt)
		loads   []float64
		metrics []bool
		wholes  []float64
		slack   float64 // by how much the means may be longer
		tail    float64 // and P99, which one call more or less moves
	}{
		{"chat", chat, []float64{0.5, 0.8, 0.95}, []bool{true, false}, []float64{0, 0.9, 1}, 0.05, 0.15},
		{"edits", edits, []float64{0.5, 0.8}, []bool{true}, []float64{0, 1}, 0.15, 0.4},
	} {
		for _, preset := range []string{"8b-h100", "70b-h100x4"} {
			t.Run(preset+", "+k.name, func(t *testing.T) {
				if testing.Short() || raceDetector {
					t.Skip("takes some seconds, and has one goroutine")
				}
				cfg, _ := engine.Preset(preset)
				one := capacityOf(t, cfg, k.next)
				for _, whole := range k.wholes {
					for _, metrics := range k.metrics {
						for _, load := range k.loads {
							var mean, p99, all, tokens [2]float64
							for on := range 2 {
								w := newWorld(t, 1, four(preset)...)
								if metrics {
									w.scraped()
								}
								if on == 1 {
									w.queued()
								}
								next := k.next(w)
								w.during(load*4*one, 0, horizon, func() (*guest, *prompt) {
									g, p := next()
									return &guest{class: g.class, whole: w.rng.Float64() < whole}, p
								})
								w.runTo(horizon)
								ttft := w.ttft(begin, end, anybody, asLong)
								mean[on], p99[on] = ttft.mean(), ttft.quantile(0.99)
								all[on] = w.meanE2E(begin, end-15*time.Second)
								tokens[on] = float64(w.tokensServed())
							}
							more := func(x [2]float64) float64 { return 100 * (x[1]/x[0] - 1) }
							name := fmt.Sprintf("%.0f %% of capacity, %.0f %% whole, metrics %v", 100*load, 100*whole, metrics)
							t.Logf("%s: TTFT %.0f ms, P99 %.0f ms, all %.2f s; with the queue %+.1f %%, %+.1f %%, %+.1f %%, tokens %+.1f %%",
								name, 1000*mean[0], 1000*p99[0], all[0], more(mean), more(p99), more(all), more(tokens))
							if mean[1] > (1+k.slack)*mean[0] || p99[1] > (1+k.tail)*p99[0] || all[1] > (1+k.slack)*all[0] || tokens[1] < 0.98*tokens[0] {
								t.Errorf("%s: the queue cost more than %.0f %%", name, 100*k.slack)
							}
						}
					}
				}
			})
		}
	}
}

// meanE2E is the mean time to the last token, of those that have it.
func (w *world) meanE2E(from, to time.Duration) float64 {
	sum, n := 0.0, 0.0
	for _, v := range w.visits {
		if v.arrived >= from && v.arrived < to && servedIn(v) {
			sum += (v.last - v.arrived).Seconds()
			n++
		}
	}
	return sum / max(1, n)
}
