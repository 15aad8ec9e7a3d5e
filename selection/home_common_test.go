package selection

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Equal servers compute for eight gateways, and each gateway saw others of them look
// slow for what they did for the rest: homes moved in proportion, and of two gateways
// one looked for a conversation where the other had not sent it. Behind one gateway a
// speed is what it looks like, and so it is where servers differ by more than others'
// work makes them.
func TestHomesOfServersThatOthersMakeLookSlow(t *testing.T) {
	list := addresses(4)
	for _, tc := range []struct {
		name   string
		others float64
		one    []float64 // speeds that two gateways have learned
		other  []float64
		most   int // conversations of 400 that have different homes
		last   int // of which the last server is home, at the most, by either
	}{
		{"alone, they disagree", 0, []float64{4000, 8000, 8000, 8000}, []float64{8000, 8000, 8000, 4000}, 120, 140},
		{"others make servers look slow", 10, []float64{4000, 8000, 8000, 8000}, []float64{8000, 8000, 8000, 4000}, 0, 140},
		{"a server is slow for both", 10, []float64{8000, 7000, 8000, 2500}, []float64{8000, 9000, 8000, 2000}, 0, 70},
	} {
		t.Run(tc.name, func(t *testing.T) {
			homes := func(speeds []float64) (of []*llmlb.Endpoint, last int) {
				w := newWorld(t, list...)
				for range 40 {
					w.now = w.now.Add(time.Second)
					w.scrapeAll(tc.others, 0, 0.2)
				}
				if tc.others == 0 {
					w.teach(speeds...) // something is known of whose the work is
				}
				for key := range 400 {
					ch := w.made(uint64(key+1)*0x9e3779b97f4a7c15, make([]seat, 4)...)
					w.pool.Lock()
					asking := w.pool.Asking(w.now, w.settings)
					for i, s := range ch.left {
						s.endpoint.Brief(&asking)
						s.rate = llmlb.Rate{Speed: speeds[i], Samples: 20}
					}
					w.pool.Unlock()
					ch.findHome()
					of = append(of, ch.homeOf().endpoint)
					if of[key] == ch.left[3].endpoint {
						last++
					}
				}
				return of, last
			}
			a, n := homes(tc.one)
			b, m := homes(tc.other)
			apart := 0
			for i := range a {
				if a[i].Address() != b[i].Address() {
					apart++
				}
			}
			if apart > tc.most || tc.most > 0 && apart == 0 {
				t.Errorf("%d of 400 conversations have different homes, want up to %d", apart, tc.most)
			}
			if max(n, m) > tc.last {
				t.Errorf("the last server is home to %d and %d of 400, want %d at the most", n, m, tc.last)
			}
		})
	}
}

// A gateway that knew where a prompt was left that server for its load, and began a
// copy somewhere. From then on it used its copy, others theirs, and nobody found what
// another had sent. A spill goes to the conversation's home as long as that is
// worth it; it does not where homes have not paid, and nobody else is there.
func TestASpillGoesHomeWhereOtherGatewaysLook(t *testing.T) {
	for _, tc := range []struct {
		name  string
		share float64
		home  bool
	}{{"homes pay", 0.9, true}, {"homes do not pay", 0, false}} {
		t.Run(tc.name, func(t *testing.T) {
			w := crowded(t, 0)
			w.found(tc.share)
			busy := addresses(3)[2]
			p := w.atHome(busy, 4000)()
			if at, _ := w.serve(p); at != busy {
				w.pool.Lock()
				cache := w.endpoint(busy).CacheID()
				w.pool.Unlock()
				indexOf(w.pool).learn(p.Blocks, cache, llmlb.Unknown, w.now, true)
			}
			for range 6 { // more there than the prompt takes itself
				w.pool.Lock()
				w.pool.Reserve(w.endpoint(busy), w.now, llmlb.Work{Uncached: 2500, Output: 1})
				w.pool.Unlock()
			}
			c := w.grant(p)
			if at := where(c); (at == busy) != tc.home {
				t.Errorf("the prompt went to %s (%v), its home is %s; want it there: %v", at, c.Decision.Reason, busy, tc.home)
			}
		})
	}
}

// Homes without room were left for the first server with room, one after the other,
// when the pool had most to do: each prompt was computed again where nobody would look
// for it, and there was less room. Such a Call waits for its home, while others have
// room; it does not where homes have not paid.
func TestACallWaitsForItsHome(t *testing.T) {
	for _, tc := range []struct {
		name  string
		share float64
		waits bool
	}{{"homes pay", 0.9, true}, {"homes do not pay", 0, false}} {
		t.Run(tc.name, func(t *testing.T) {
			w := crowded(t, 0)
			w.found(tc.share)
			w.teach(10_000, 10_000, 10_000)
			for range 5 {
				w.crowd(0)
			}
			home := addresses(3)[2]
			next := w.atHome(home, 4000)
			at, away := 0, 0
			for range 60 {
				c := w.call(next())
				v, waits, _ := Place(c, w.now)
				if v == Granted {
					c.Begin(c.Lease.Endpoint(), w.now)
					if where(c) == home {
						at++
					} else {
						away++
					}
					continue
				}
				if v != Busy || (at > away) != tc.waits || tc.waits && waits != w.endpoint(home) {
					t.Errorf("verdict %v after %d calls at home and %d away, want it to wait for its home before most are away: %v", v, at, away, tc.waits)
				}
				return
			}
			t.Error("nothing was ever full")
		})
	}
}

// A server that holds a prompt's prefix was left for the home of its conversation also
// where that one was ten times as slow, and seven seconds were waited instead of none;
// and where so many waited that the operator wants a server left.
func TestAKnownPrefixIsNotSentToJustAnyHome(t *testing.T) {
	for _, tc := range []struct {
		name    string
		speed   float64 // the last server's
		waiting float64 // at it
		limit   float64 // spill_waiting
		tokens  int
		leaves  bool // for the last server
	}{
		{"equal servers", 8000, 2.1, 0, 20_000, true},
		{"a slow kind of server", 800, 0, 0, 6000, false},
		{"past the threshold", 8000, 2.1, 1, 20_000, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := crowded(t, tc.waiting)
			w.settings.SpillWaiting = tc.limit
			w.found(0.9)
			w.teach(8000, 8000, tc.speed)
			w.crowd(tc.waiting)
			list := addresses(3)
			w.pool.Lock()
			cache := w.endpoint(list[0]).CacheID()
			w.pool.Unlock()
			next := w.atHome(list[2], tc.tokens)
			left := 0
			for range 20 {
				p := next()
				indexOf(w.pool).learn(p.Blocks, cache, llmlb.Unknown, w.now, true)
				c := w.grant(p)
				if where(c) == list[2] {
					left++
				}
				c.EndAttempt(w.now, llmlb.ClientGone)
			}
			if (left > 0) != tc.leaves {
				t.Errorf("%d of 20 left the server that holds their prefix for the last one, want any: %v", left, tc.leaves)
			}
		})
	}
}
