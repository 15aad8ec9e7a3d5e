package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The times of a rolling update in virtual time: a server drains, is replaced, and
// comes back with cold caches, slow at first because it still compiles its kernels.
const (
	drains    = 30 * time.Second
	comesBack = 60 * time.Second
	slowFor   = 10 * time.Second
	slowBy    = 4
)

// topics has everybody ask about one of so many texts, which a cache can hold.
func (w *world) topics(n int) func() (*guest, *prompt) {
	texts := make([]passage, n)
	for i := range texts {
		texts[i] = w.write(w.between(2000, 4000))
	}
	return func() (*guest, *prompt) {
		return nobody, &prompt{
			text:   []passage{texts[w.rng.IntN(n)], w.write(w.between(50, 400))},
			answer: w.write(w.between(32, 200)), first: 2,
		}
	}
}

// unrelated has everybody ask something of their own.
func (w *world) unrelated() func() (*guest, *prompt) {
	next := w.distinct(1000, 4000, 32, 200)
	return func() (*guest, *prompt) { return nobody, next() }
}

// replace has the machine drain, and another process take its place.
func (w *world) replace(m *machine) {
	w.after(drains, scrapes, func() { w.of(m).Drain(w.clock(), llmlb.DrainOrder{}) })
	w.after(comesBack, scrapes, func() {
		if m.open > 0 {
			w.t.Fatalf("%d calls are still open after %v of draining", m.open, comesBack-drains)
		}
		r := mustReplica(w.t, &w.timeline, m.engine.Config(), m.token)
		done := r.worked
		r.stepped = func() {
			took := r.worked - done
			done = r.worked
			if w.now < comesBack+slowFor {
				w.after((slowBy-1)*took, stepEnds, r.endStep)
			} else {
				r.endStep()
			}
		}
		m.replica, m.counters = r, counters{}
		w.lies(m, func(s *llmlb.Signals) bool {
			s.ProcessStart += comesBack.Seconds()
			return true
		})
		if err := w.of(m).Resume(w.clock()); err != nil {
			w.t.Fatal(err)
		}
	})
}

// comeback is what was seen after the server came back.
type comeback struct {
	open             [4]float64 // its open calls by span, by those of the others
	most             float64    // at once in the first span
	own, others, all times      // to first token, of calls that came in the first three
}

var spans = [5]time.Duration{0, 5 * time.Second, 15 * time.Second, 30 * time.Second, 60 * time.Second}

// comingBack runs it once.
func comingBack(t *testing.T, cfg engine.Config, seed uint64, load float64, asks func(*world) func() (*guest, *prompt), warmUp time.Duration) (c comeback) {
	t.Helper()
	w := newWorld(t, seed, cfg, cfg, cfg, cfg).scraped()
	w.settings.Checks.WarmUp = warmUp
	w.queued()
	m := w.machines[0]
	w.replace(m)
	w.during(load, 0, comesBack+spans[4], asks(w))
	for i := range spans[1:] {
		own, others := 0.0, 0.0
		for at := spans[i]; at < spans[i+1]; at += 50 * time.Millisecond {
			w.after(comesBack+at, scrapes, func() {
				own += float64(m.open)
				for _, o := range w.machines[1:] {
					others += float64(o.open) / 3
				}
				if i == 0 {
					c.most = max(c.most, float64(m.open))
				}
			})
		}
		w.after(comesBack+spans[i+1], scrapes, func() { c.open[i] = own / max(others, 1) })
	}
	w.runTo(comesBack + spans[4])
	from, to := comesBack, comesBack+spans[3]
	c.own = w.ttft(from, to, func(v *visit) bool { return v.machine == m }, asLong)
	c.others = w.ttft(from, to, func(v *visit) bool { return v.machine != m }, asLong)
	c.all = w.ttft(from, to, anybody, asLong)
	return c
}

// A server comes back into a pool that is at work. Its share grows from little to
// the whole. Those who are sent there wait far less for their first token than they
// would if it took part at once; and so does everybody taken together, unless the
// others hold what is asked about in their caches: then they do for a while what it
// does not, at a small cost, and only where they are busy.
func TestAServerComesBackIntoAPoolAtWork(t *testing.T) {
	type kind struct {
		name  string
		asks  func(*world) func() (*guest, *prompt)
		slack float64 // on the P99 of all
	}
	presets, loads := []string{"8b-h100", "70b-h100x4"}, []kind{
		{"nothing in common", (*world).unrelated, 1},
		{"80 topics", func(w *world) func() (*guest, *prompt) { return w.topics(80) }, 1.5},
	}
	if raceDetector { // the few runs there are then say too little of the rest
		presets, loads = presets[:1], loads[:1]
	}
	for _, preset := range presets {
		cfg, _ := engine.Preset(preset)
		for _, load := range loads {
			four := 4 * capacityOf(t, cfg, load.asks)
			for _, part := range []float64{0.5, 0.7} {
				t.Run(fmt.Sprintf("%s, %s, %.0f %% of what four can do", preset, load.name, 100*part), func(t *testing.T) {
					var off, on comebacks
					for seed := range seeds(5) {
						off = append(off, comingBack(t, cfg, seed, part*four, load.asks, 0))
						on = append(on, comingBack(t, cfg, seed, part*four, load.asks, llmlb.DefaultWarmUp))
					}
					t.Logf("warm_up off: %v", off)
					t.Logf("warm_up %v: %v", llmlb.DefaultWarmUp, on)
					for _, at := range []struct {
						name  string
						calls func(comeback) times
						slack float64
					}{
						{"its own", func(c comeback) times { return c.own }, 1},
						{"the others'", func(c comeback) times { return c.others }, 1.5},
						{"all", func(c comeback) times { return c.all }, load.slack},
					} {
						p99 := func(c comeback) float64 { return at.calls(c).quantile(0.99) }
						if a, b := off.mid(p99), on.mid(p99); b > at.slack*a {
							t.Errorf("the P99 of %s requests is %.2f s without, and %.2f s with the warm-up", at.name, a, b)
						}
					}
					for i := range 3 {
						span := func(i int) float64 { return on.mid(func(c comeback) float64 { return c.open[i] }) }
						if span(i) > span(i+1)+0.05 {
							t.Errorf("its share of open requests shrinks: %v", on)
						}
					}
					if first := func(c comeback) float64 { return c.open[0] }; on.mid(first) >= off.mid(first) {
						t.Errorf("its share in the first seconds is %.2f without, and %.2f with the warm-up", off.mid(first), on.mid(first))
					}
				})
			}
		}
	}
}

type comebacks []comeback

// mid is the middle one of what is told of each.
func (l comebacks) mid(of func(comeback) float64) float64 {
	values := make([]float64, 0, len(l))
	for _, c := range l {
		values = append(values, of(c))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// String is what the table in docs/benchmarks.md shows.
func (l comebacks) String() string {
	s := "open"
	for i := range l[0].open {
		s += fmt.Sprintf(" %.2f", l.mid(func(c comeback) float64 { return c.open[i] }))
	}
	s += fmt.Sprintf(", most %.0f", l.mid(func(c comeback) float64 { return c.most }))
	for _, part := range []struct {
		name string
		of   func(comeback) times
	}{
		{"own", func(c comeback) times { return c.own }},
		{"others", func(c comeback) times { return c.others }},
		{"all", func(c comeback) times { return c.all }},
	} {
		q := func(q float64) float64 { return l.mid(func(c comeback) float64 { return part.of(c).quantile(q) }) }
		s += fmt.Sprintf("; %s P50 %.2f s, P99 %.2f s", part.name, q(0.5), q(0.99))
	}
	return s
}
