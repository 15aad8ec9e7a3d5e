package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// rush is a crowd of all kinds that wants more than the servers can do: three
// classes, tenants of different weights, whole answers and streams, people who
// lose patience at any moment, and less room in the queue than they would fill.
// A plain one has one class, prompts that have nothing in common, and no limit on
// KV memory: nothing that makes one server's place depend on others' state.
func rush(t *testing.T, seed uint64, metrics, plain bool) (*world, *gateway) {
	slow, _ := engine.Preset("8b-a100")
	fast, _ := engine.Preset("8b-h100")
	w := newWorld(t, seed, slow, fast, slow)
	w.settings.Members[2].MaxConcurrent = 12
	if plain {
		w.settings.KVLimit = 0
	}
	if metrics {
		w.scraped()
	}
	d := w.queued()
	d.bounds = queue.Bounds{Calls: 150, Tokens: 300_000}
	classes := []*queue.Class{
		{Name: "first", MaxWait: 2 * time.Second},
		{Name: "second", Rank: 1, Share: 0.05, MaxWait: 10 * time.Second},
		{Name: "third", Rank: 2, Share: 0.05, Saturation: 1, MaxWait: time.Minute},
	}
	m := newMixed(w, 12)
	w.during(60, 0, 40*time.Second, func() (*guest, *prompt) {
		p := w.prompts(lengths{20, 3000, 8, 200})()
		if w.rng.IntN(3) == 0 && !plain {
			_, p = m.edit()
		}
		i, class := w.rng.IntN(5), w.rng.IntN(3)
		if plain {
			class = 0
		}
		return &guest{
			class: classes[class], tenant: fmt.Sprint(i), weight: float64(1 + i%2),
			whole: w.rng.IntN(3) == 0, patience: time.Duration(w.rng.IntN(4)) * w.exponential(0.2),
		}, p
	})
	return w, d
}

// However a call fares, it ends once, and nothing of it is left behind: no place
// in the queue, no reservation, no work booked.
func TestEveryCallEndsOnce(t *testing.T) {
	for _, metrics := range []bool{true, false} {
		for seed := range seeds(3) {
			w, d := rush(t, seed, metrics, false)
			w.runTo(40 * time.Second)
			w.run(func() bool { return w.ended == len(w.visits) })
			served, refused, gone := 0, 0, 0
			for _, v := range w.visits {
				switch {
				case v.ends != 1:
					t.Fatalf("seed %d: call %d has ended %d times", seed, v.id, v.ends)
				case v.gone:
					gone++
				case v.refused:
					refused++
				default:
					served++
				}
			}
			if served < 300 || refused < 100 || gone < 100 {
				t.Errorf("seed %d: %d calls were served, %d refused, and %d clients left: too few of some for this to say anything", seed, served, refused, gone)
			}
			if n := d.queue.Len(); n != 0 {
				t.Errorf("seed %d: %d calls wait though all have ended", seed, n)
			}
			for _, c := range d.queue.Status(w.clock()) {
				if c.Calls != 0 || c.Tokens != 0 {
					t.Errorf("seed %d: class %s is said to have %d calls of %d tokens waiting", seed, c.Name, c.Calls, c.Tokens)
				}
			}
			w.pool.Lock()
			for _, m := range w.machines {
				l := w.of(m).Ledger()
				a, b := l.OwnCalls()
				p, o := l.TokensInFlight()
				silent, quiet := w.of(m).Silent()
				if a != 0 || b != 0 || p != 0 || o != 0 || silent != 0 || quiet != 0 {
					t.Errorf("seed %d: endpoint %d has %d and %d calls, %d and %d tokens booked, though all have ended", seed, m.number, a, b, p, o)
				}
			}
			w.pool.Unlock()
		}
	}
}

// Whenever something has happened, whoever could be placed has been, to the rounding
// of a moment: asking all endpoints once more places nobody. Where there are classes
// that wait until the pool is less busy, and prefixes for which calls wait until that
// is too long, it is for a tenth of a second that this may be wrong, and hardly ever
// is. So it is where a full KV memory bars a server for as long as another has room.
func TestNoPlaceIsLeftUnused(t *testing.T) {
	for _, plain := range []bool{true, false} {
		for _, metrics := range []bool{true, false} {
			t.Run(fmt.Sprintf("plain %v, metrics %v", plain, metrics), func(t *testing.T) {
				for seed := range seeds(3) {
					w, d := rush(t, seed, metrics, plain)
					asked, late := 0, 0
					before := time.Duration(-1)
					w.run(func() bool {
						// What happens at the same moment belongs together.
						if len(w.plans) > 0 && w.plans[0].at > w.now && w.now > before && d.queue.Len() > 0 && !d.again {
							before = w.now
							asked++
							n := d.placed
							for _, m := range w.machines {
								d.queue.Freed(w.of(m), w.clock())
							}
							late += d.placed - n
						}
						return w.now > 40*time.Second && w.ended == len(w.visits)
					})
					if asked < 200 {
						t.Errorf("seed %d: somebody waited at %d moments only", seed, asked)
					}
					if most := asked / 100; late > most || plain && late > asked/2000 {
						t.Errorf("seed %d: at %d of %d moments somebody waited although there was a place", seed, late, asked)
					}
				}
			})
		}
	}
}

// backlog has tenants send ten thousand calls within a second, of sizes of their
// own and so many that all would be done at about the same time, and lets time
// pass until one of them has few left. It returns what they have had from the
// servers, as it is priced.
func backlog(t *testing.T, seed uint64, guests ...*guest) []float64 {
	w := newWorld(t, seed, four("8b-h100")...).scraped()
	w.queued().bounds.Calls = 1 << 20
	sizes := func(i int) lengths { return lengths{50, 400 + 800*i, 4, 16 + 16*i} }
	want := func(i int) float64 {
		l := sizes(i)
		return guests[i].weight / queue.Price((l.short+l.long)/2, (l.least+l.most)/2)
	}
	sum := 0.0
	for i := range guests {
		sum += want(i)
	}
	few := false
	for i, g := range guests {
		next := w.prompts(sizes(i))
		left := int(10_000 * want(i) / sum)
		most := left
		for range most {
			w.after(time.Duration(w.rng.Float64()*float64(time.Second)), arrives, func() {
				w.bring(g, next(), func(*visit) { left--; few = few || left < most/10 })
			})
		}
	}
	w.run(func() bool { return few })
	spent := make([]float64, len(guests))
	for _, v := range w.visits {
		if v.machine != nil {
			spent[slices.Index(guests, v.guest)] += queue.Price(v.computed(), v.output)
		}
	}
	return spent
}

// Tenants who always have calls waiting get the same number of tokens, however
// large their calls are, and one of four times the weight four times as many.
func TestTenantsGetTheirShareOfTokens(t *testing.T) {
	if testing.Short() || raceDetector {
		t.Skip("takes some seconds, and has one goroutine")
	}
	hour := &queue.Class{Name: "hour", MaxWait: time.Hour}
	for _, tc := range []struct {
		name    string
		weights []float64
	}{
		{"equal", []float64{1, 1, 1, 1}},
		{"4 : 1", []float64{4, 1}},
		{"1 : 4", []float64{1, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var guests []*guest
			sum := 0.0
			for i, x := range tc.weights {
				guests = append(guests, &guest{class: hour, tenant: fmt.Sprint(i), weight: x})
				sum += x
			}
			spent := backlog(t, 1, guests...)
			total := 0.0
			for _, x := range spent {
				total += x
			}
			for i, x := range spent {
				got, want := x/total, tc.weights[i]/sum
				t.Logf("tenant %d: %.2f %% of the tokens, of %.0f by its weight", i, 100*got, 100*want)
				if got < 0.98*want || got > 1.02*want {
					t.Errorf("tenant %d got %.2f %% of the tokens, want %.0f %% ± 2 %%", i, 100*got, 100*want)
				}
			}
		})
	}
}

// Two tenants have used the service for a while. One goes away for an hour, the
// other works on. When both come with more than can be done, they are equals.
func TestAnHourAwayEarnsNothing(t *testing.T) {
	w := newWorld(t, 1, four("8b-h100")...).scraped()
	w.queued()
	away, here := &guest{class: interactive, tenant: "away"}, &guest{class: interactive, tenant: "here"}
	next := w.prompts(lengths{500, 4000, 16, 64})
	const hour, minute = time.Hour, time.Minute
	w.during(20, 0, 10*time.Second, func() (*guest, *prompt) { return away, next() })
	w.during(2, 0, hour, func() (*guest, *prompt) { return here, next() })
	for _, g := range []*guest{away, here} {
		w.during(100, hour, hour+10*time.Second, func() (*guest, *prompt) { return g, next() })
	}
	w.runTo(hour + 10*time.Second)
	spent := map[*guest]float64{}
	for _, v := range w.visits {
		if v.arrived > hour && v.first > 0 && v.first < hour+minute {
			spent[v.guest] += queue.Price(v.computed(), v.output)
		}
	}
	if a, b := spent[away], spent[here]; a < 0.9*b || a > 1.1*b {
		t.Errorf("the tenant who was away got %.0f tokens in the rush and the other %.0f, want as many ± 10 %%", a, b)
	}
}

// While people edit, more than can be served, summaries get their twentieth, and
// nobody among fifty tenants is forgotten.
func TestNobodyStarves(t *testing.T) {
	w := newWorld(t, 1, four("8b-h100")...).scraped()
	d := w.queued()
	d.bounds.Calls = 1 << 20
	next := w.prompts(lengths{500, 4000, 32, 96})
	long := &queue.Class{Name: "interactive", MaxWait: 20 * time.Second}
	later := &queue.Class{Name: "background", Rank: 1, Share: 0.05, Saturation: 1, MaxWait: time.Hour}
	const end = 60 * time.Second
	last := map[string]time.Duration{}
	longest := time.Duration(0)
	w.during(100, 0, end, func() (*guest, *prompt) {
		return &guest{class: long, tenant: fmt.Sprint(w.rng.IntN(50))}, next()
	})
	w.during(20, 0, end, func() (*guest, *prompt) { return &guest{class: later, tenant: "summaries"}, next() })
	w.runTo(end)
	spent := map[string]float64{}
	for _, v := range w.visits {
		if v.first > 10*time.Second {
			spent[v.guest.class.Name] += queue.Price(v.computed(), v.output)
		}
		if v.first > 0 && v.guest.class == long {
			longest = max(longest, v.first-last[v.guest.tenant])
			last[v.guest.tenant] = max(last[v.guest.tenant], v.first)
		}
	}
	share := spent["background"] / (spent["background"] + spent["interactive"])
	t.Logf("summaries got %.1f %% of the tokens; no tenant was without a first token for longer than %v", 100*share, longest)
	if share < 0.04 || share > 0.07 {
		t.Errorf("summaries got %.1f %% of the tokens while there was more to edit than could be done, want 5 %%", 100*share)
	}
	if longest > 10*time.Second {
		t.Errorf("a tenant had no first token for %v", longest)
	}
}
