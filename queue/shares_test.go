package queue

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// bout is tenants that always have requests waiting, at servers that compute a
// token a millisecond in each slot.
type bout struct {
	*site
	random *rand.Rand
	sides  []*side
	run    []*running
}

// side is one tenant of one class.
type side struct {
	class  *Class
	tenant string
	weight float64
	guess  float64 // its estimates by the truth
	most   int     // tokens of a request, 100 at least
	depth  int     // how many of its requests wait
	off    bool
	served float64
	calls  int
	oldest time.Time // when one of its own was served last
	gap    time.Duration
}

type running struct {
	*guest
	side *side
	cost float64
	ends time.Time
}

func newBout(t testing.TB, seed uint64, slots int, sides ...*side) *bout {
	b := &bout{site: newSite(t, slots), random: rand.New(rand.NewPCG(seed, 0)), sides: sides}
	for _, s := range sides {
		s.most, s.depth = max(s.most, 2000), max(s.depth, 20)
		s.weight, s.oldest = max(s.weight, 1), b.now
		if s.guess == 0 {
			s.guess = 1
		}
	}
	return b
}

func (b *bout) fill(s *side) {
	for range s.depth {
		b.arrives(s)
	}
}

func (b *bout) arrives(s *side) {
	truth := float64(100 + b.random.IntN(s.most-100))
	g := b.guest(s.tenant, s.class, s.tenant, int(truth*s.guess))
	g.Weight = s.weight
	g.Ready = func() {
		b.run = append(b.run, &running{guest: g, side: s, cost: truth, ends: b.now.Add(time.Duration(truth) * time.Millisecond)})
		s.served += truth
		s.calls++
		s.gap, s.oldest = max(s.gap, b.now.Sub(s.oldest)), b.now
	}
	b.push(g)
}

// serve has so many requests end.
func (b *bout) serve(calls int) {
	for ; calls > 0 && len(b.run) > 0; calls-- {
		next := 0
		for i, r := range b.run {
			if r.ends.Before(b.run[next].ends) {
				next = i
			}
		}
		r := b.run[next]
		b.run = append(b.run[:next], b.run[next+1:]...)
		b.now = r.ends
		b.queue.Settle(&r.Waiter, r.cost)
		b.end(r.guest)
		for _, s := range b.sides {
			if s.off {
				continue
			}
			for n := b.queue.class(s.class).tenants[s.tenant].waiting; n < s.depth; n++ {
				b.arrives(s)
			}
		}
	}
	b.check()
}

func (b *bout) forget() {
	for _, s := range b.sides {
		s.served, s.calls, s.gap = 0, 0, 0
	}
}

// Five tenants with requests of very different sizes, whose estimates are wrong
// in ways of their own, get equal shares of the tokens that are really computed.
func TestEqualShares(t *testing.T) {
	for seed := range uint64(5) {
		b := newBout(t, seed, 8,
			&side{class: interactive, tenant: "small", most: 500},
			&side{class: interactive, tenant: "large", most: 4000},
			&side{class: interactive, tenant: "guessed too high", guess: 4},
			&side{class: interactive, tenant: "guessed too low", guess: 0.25},
			&side{class: interactive, tenant: "has a thousand waiting", depth: 1000},
		)
		for _, s := range b.sides {
			b.fill(s)
		}
		b.serve(200)
		b.forget()
		b.serve(10_000)
		least, most := math.Inf(1), 0.0
		for _, s := range b.sides {
			least, most = min(least, s.served), max(most, s.served)
		}
		if (most-least)/least > 0.02 {
			t.Errorf("seed %d: shares differ by %.1f %%: %v", seed, 100*(most-least)/least, b.shares())
		}
	}
}

func (b *bout) shares() (list []string) {
	for _, s := range b.sides {
		list = append(list, fmt.Sprintf("%s %.0f tokens in %d calls", s.tenant, s.served, s.calls))
	}
	return list
}

// A tenant of weight 4 gets four times as much.
func TestWeights(t *testing.T) {
	for seed := range uint64(5) {
		four, one := &side{class: interactive, tenant: "four", weight: 4, guess: 2}, &side{class: interactive, tenant: "one", guess: 0.5}
		b := newBout(t, seed, 8, four, one)
		b.fill(four)
		b.fill(one)
		b.serve(200)
		b.forget()
		b.serve(10_000)
		if ratio := four.served / one.served; ratio < 4*0.98 || ratio > 4*1.02 {
			t.Errorf("seed %d: %.3f : 1", seed, ratio)
		}
	}
}

// Who was away for an hour is no further ahead than the others when it comes
// back: not with nothing open, nor with a request that ran all the while and
// cost nothing in the end.
func TestAnHourAwayGainsNothing(t *testing.T) {
	for _, open := range []bool{false, true} {
		back, stays, also := &side{class: interactive, tenant: "back"}, &side{class: interactive, tenant: "stays"}, &side{class: interactive, tenant: "stays too"}
		b := newBout(t, 1, 8, back, stays, also)
		var long *guest
		if open {
			long = b.guest("long", interactive, "back", 1_000_000)
			b.ends[0].slots++
			b.push(long)
		}
		back.off = true
		b.fill(stays)
		b.fill(also)
		b.serve(30_000)
		if b.now.Sub(time.Unix(1_700_000_000, 0)) < time.Hour {
			t.Fatal("that was no hour")
		}
		if open {
			b.queue.Settle(&long.Waiter, 0)
		}
		b.forget()
		back.off = false
		b.fill(back)
		b.serve(300)
		if most := 1.15 * (stays.served + also.served) / 2; back.served > most {
			t.Errorf("open %v: it got more: %v", open, b.shares())
		}
	}
}

// However much one tenant asks for, another's single request is soon served, and
// no tenant, and no class that has a share, waits for ever.
func TestNobodyStarves(t *testing.T) {
	sides := []*side{
		{class: interactive, tenant: "flood", depth: 1000},
		{class: interactive, tenant: "one at a time", depth: 1},
		{class: background, tenant: "batch", most: 8000, depth: 50},
	}
	b := newBout(t, 3, 8, sides...)
	for _, s := range sides {
		b.fill(s)
	}
	b.serve(200)
	b.forget()
	b.serve(10_000)
	for _, s := range sides {
		// Eight slots compute 8,000 tokens a second; a summary has up to 8,000,
		// and 5 % of the tokens.
		most := 2 * time.Second
		if s.class == background {
			most = 45 * time.Second
		}
		if s.gap > most {
			t.Errorf("%s waited %v for its turn: %v", s.tenant, s.gap, b.shares())
		}
	}
}

// A lower class gets its share of the tokens while those above it want all.
func TestClassShares(t *testing.T) {
	for _, test := range []struct{ middle, low float64 }{{0.05, 0.05}, {0.2, 0.1}, {0, 0.05}, {0.1, 0}} {
		sides := []*side{
			{class: &Class{Name: "high"}, tenant: "a"},
			{class: &Class{Name: "middle", Rank: 1, Share: test.middle}, tenant: "a", most: 500},
			{class: &Class{Name: "low", Rank: 2, Share: test.low}, tenant: "a", most: 8000},
		}
		b := newBout(t, 4, 8, sides...)
		for _, s := range sides {
			b.fill(s)
		}
		b.serve(300)
		b.forget()
		b.serve(20_000)
		total := sides[0].served + sides[1].served + sides[2].served
		for i, want := range []float64{1 - test.middle - test.low, test.middle, test.low} {
			if got := sides[i].served / total; math.Abs(got-want) > 0.005 {
				t.Errorf("shares %+v: %s has %.1f %%, want %.1f", test, sides[i].class.Name, 100*got, 100*want)
			}
		}
	}
}

// A share that could not be had for a while, since no server could take it, is
// no flood afterwards: one request, as long as they come.
func TestAShareIsNotSavedUp(t *testing.T) {
	s := newSite(t, 0, 0)
	s.ends[0].model, s.ends[1].model = "llama", "qwen"
	of := func(name string, c *Class, model string) *guest {
		g := s.guest(name, c, "a", 100)
		g.Kind = model
		return g
	}
	for i := range 100 {
		s.waits(of(fmt.Sprint("summary", i), background, "qwen"))
	}
	for i := range 1000 {
		s.waits(of(fmt.Sprint("edit", i), interactive, "llama"))
	}
	s.give(s.ends[0], 1000)
	s.placed = s.placed[:0]
	s.waits(of("edit", interactive, "qwen"))
	s.give(s.ends[1], 3)
	s.expect("summary0", "edit", "summary1")
	s.check()
}

// Above its mark of saturation a class starts nothing but its share, and it has
// none if it is given none; below it, it takes what is free.
func TestSaturation(t *testing.T) {
	for _, share := range []float64{0, 0.05} {
		held := &Class{Name: "held", Rank: 1, Share: share, Saturation: 1}
		edits, batch := &side{class: interactive, tenant: "a"}, &side{class: held, tenant: "a"}
		b := newBout(t, 5, 8, edits, batch)
		b.saturation = 1
		b.fill(batch)
		if batch.calls > 0 {
			t.Errorf("share %v: %d start at once", share, batch.calls)
		}
		b.fill(edits)
		b.serve(5000)
		if got := batch.served / (batch.served + edits.served); math.Abs(got-share) > 0.005 {
			t.Errorf("share %v: it got %.1f %%", share, 100*got)
		}
		edits.off = true
		b.serve(25) // those that wait
		n := batch.calls
		b.serve(5)
		if batch.calls > n+1 {
			t.Errorf("share %v: %d start in a saturated pool when nobody else waits", share, batch.calls-n)
		}
		b.saturation = 0.99
		b.freed(b.ends[0])
		if b.ends[0].room() {
			t.Errorf("share %v: room is left below the mark", share)
		}
		b.check()
	}
}

// What has just been started counts: a pool with much room is filled to the mark.
func TestSaturationIsAskedAfterEachStart(t *testing.T) {
	s := newSite(t, 0, 10)
	s.ends[1].model = "qwen"
	s.queue.world.Saturation = func(time.Time) float64 { return float64(s.ends[0].open+s.ends[1].open) / 10 }
	held := &Class{Name: "held", Rank: 1, Saturation: 0.4}
	for i := range 10 {
		s.waits(s.guest(fmt.Sprint(i), held, "a", 100))
	}
	s.ends[0].slots = 10
	s.freed(s.ends[0])
	s.expect("0", "1", "2", "3")

	// Nor does a line for another server give more.
	s = newSite(t, 0, 0)
	s.queue.world.Saturation = func(time.Time) float64 { return float64(s.ends[1].open) / 10 }
	for i := range 10 {
		g := s.warm(fmt.Sprint(i), "a", s.ends[0], 1<<30)
		g.Class = held
		s.waits(g)
		g.patience = -1
	}
	s.ends[1].slots = 10
	s.freed(s.ends[1])
	s.expect("9", "8", "7", "6")
}

// A tenant whose requests claim ten times what they cost gains nothing by it: one
// that asks now and then is served as soon as where nobody claims too much.
func TestClaimingMuchIsOfNoUse(t *testing.T) {
	wait := func(claimed int) time.Duration {
		s := newSite(t, 8)
		begun := make(map[*guest]time.Time)
		flood := func() { s.push(s.guest("", interactive, "flood", claimed)) }
		for range 64 {
			flood()
		}
		var one *guest
		var came time.Time
		var sum time.Duration
		served := 0
		for step := range 5000 {
			s.now = s.now.Add(10 * time.Millisecond)
			for _, g := range s.placed {
				if begun[g] = s.now; g == one {
					sum += s.now.Sub(came)
					served++
				}
			}
			s.placed = nil
			for g, at := range begun {
				if s.now.Sub(at) < 200*time.Millisecond {
					continue
				}
				delete(begun, g)
				s.queue.Settle(&g.Waiter, 200)
				s.end(g)
				if g == one {
					one = nil
				} else {
					flood()
				}
			}
			if one == nil && step%50 == 0 {
				one, came = s.guest("", interactive, "one", 200), s.now
				s.push(one)
			}
		}
		s.check()
		return sum / time.Duration(max(1, served))
	}
	honest, much := wait(200), wait(2200)
	t.Logf("it waits %v, and %v where the other one claims too much", honest, much)
	if much > honest*5/4+10*time.Millisecond || honest == 0 {
		t.Errorf("it waits %v where the other one claims too much, and %v otherwise", much, honest)
	}
}
