package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// lengths are bounds, in tokens, within which prompts and answers are equally
// likely to have any length.
type lengths struct{ short, long, least, most int }

func (w *world) prompts(l lengths) func() *prompt {
	return w.distinct(l.short, l.long, l.least, l.most)
}

// capacity is how many calls a second of these lengths the engines can serve
// together when none ever waits for work.
func capacity(t testing.TB, l lengths, engines ...engine.Config) (perSecond float64) {
	t.Helper()
	for _, cfg := range engines {
		w := newWorld(t, 1, cfg)
		w.closedLoop(96, time.Second, w.prompts(l))
		w.until(300)
		begin := w.now
		w.until(900)
		perSecond += 600 / (w.now - begin).Seconds()
	}
	return perSecond
}

// A pool of an old and a new accelerator, three times as fast, of which nothing
// is said in the configuration: once both are busy, the new one soon does three
// times the work, whether or not there are metrics to read. It stays so, and what
// was learned of the two speeds says the same.
func TestUnequalServersShareTheWorkBySpeed(t *testing.T) {
	slow, _ := engine.Preset(defaultEngine)
	fast := faster(slow, 3)
	chat, classify := lengths{1000, 3000, 64, 200}, lengths{500, 4000, 8, 32}
	full := capacity(t, classify, slow, fast)
	for _, tc := range []struct {
		name string
		load func(*world)
	}{
		{"48 clients", func(w *world) { w.closedLoop(48, 3*time.Second, w.prompts(chat)) }},
		{"24 clients, short answers", func(w *world) { w.closedLoop(24, time.Second, w.prompts(classify)) }},
		{"80 % of the pool's capacity", func(w *world) { w.openLoop(0.8*full, w.prompts(classify)) }},
	} {
		for _, metrics := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, metrics %v", tc.name, metrics), func(t *testing.T) {
				var early, late, speeds []float64
				for seed := range seeds(10) {
					w := newWorld(t, seed, slow, fast)
					if metrics {
						w.scraped()
					}
					tc.load(w)
					// One moment's estimate wavers; that is no matter to the share.
					learned, n := 0.0, 0.0
					for calls := 200; calls <= 600; calls += 25 {
						w.settle(calls)
						learned += w.speed(w.machines[1]) / w.speed(w.machines[0])
						n++
					}
					for _, span := range []struct {
						from, to int
						ratios   *[]float64
					}{{60, 200, &early}, {200, 600, &late}} {
						work := w.work(span.from, span.to)
						r := work[1] / work[0]
						*span.ratios = append(*span.ratios, r)
						if r < 2.55 || r > 3.45 {
							t.Errorf("seed %d: of calls %d to %d the fast server did %.2f times the work of the slow one, want 3 ± 15 %%", seed, span.from, span.to, r)
						}
					}
					r := learned / n
					speeds = append(speeds, r)
					if r < 2.4 || r > 3.6 {
						t.Errorf("seed %d: the fast server is taken for %.2f times as fast as the slow one, want 3 ± 20 %%", seed, r)
					}
				}
				t.Logf("work, fast : slow, calls 60 to 200: %s; 200 to 600: %s; speed learned: %s", spread(early), spread(late), spread(speeds))
			})
		}
	}
}

// spread tells the least, the middle and the most of several values.
func spread(values []float64) string {
	slices.Sort(values)
	return fmt.Sprintf("%.2f %.2f %.2f", values[0], values[len(values)/2], values[len(values)-1])
}
