package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// One that finds room: what the queue adds to the choice.
func BenchmarkStraight(b *testing.B) {
	s := newSite(b, 1)
	g := s.guest("", interactive, "a", 100)
	g.Ready = func() {}
	b.ReportAllocs()
	for b.Loop() {
		w := g.Waiter
		if s.queue.Push(&w, many, s.now) != Granted {
			b.Fatal("not granted")
		}
		s.queue.Settle(&w, 50)
		g.at.open--
	}
}

// lobby is a site with a queue of constant length, in which a choice costs next to
// nothing.
type lobby struct {
	*site
	all  []*guest // one more than wait
	out  *guest   // that one
	free *end     // the one endpoint with room
}

// newLobby has so many wait, the first of them each for an endpoint.
func newLobby(b testing.TB, waiting, warm, tenants, endpoints int) *lobby {
	l := &lobby{site: newSite(b, make([]int, endpoints)...)}
	l.queue.world.Place = l.choose
	for i := range waiting + 1 {
		g := l.guest("", interactive, fmt.Sprint("tenant ", i%tenants), 100)
		g.Call.Attempts, g.Ready = i, func() { l.out = g }
		if i < warm {
			g.home = l.ends[i%endpoints]
		}
		l.all = append(l.all, g)
	}
	l.waits(l.all[:waiting]...)
	l.out = l.all[waiting]
	return l
}

func (l *lobby) choose(c *llmlb.Call, _ time.Time) Placement {
	switch g := l.all[c.Attempts]; {
	case g.home != nil && g.home != l.free && g.patience > 0:
		return Placement{Answer: Busy, For: g.home.Endpoint, Effort: 100}
	case l.free == nil:
		return Placement{Answer: Busy}
	default:
		g.at = l.free
		l.free.open++
		return Placement{Answer: Placed}
	}
}

// push has the one come that does not wait.
func (l *lobby) push(b testing.TB) {
	g := l.out
	g.Waiter = Waiter{Call: g.Call, Class: g.Class, Tenant: g.Tenant, Ready: g.Ready}
	if l.site.push(g) != Waiting {
		b.Fatal("it does not wait")
	}
}

// turn has an endpoint take one of those who wait, and another come in its place.
func (l *lobby) turn(b testing.TB, e *end) {
	l.push(b)
	l.free, e.slots = e, 1
	for l.queue.Freed(e.Endpoint, l.now) {
	}
	if e.open != 1 {
		b.Fatal("nobody took the room")
	}
	l.free, e.slots, e.open = nil, 0, 0
	l.queue.Settle(&l.out.Waiter, 50)
}

var lengths = []int{10, 100, 1000, 10_000}

// One comes and waits, and an endpoint takes one of those that wait: all that the
// queue does for a Call that has to wait.
func BenchmarkTurn(b *testing.B) {
	for _, endpoints := range []int{4, 256, 1000} {
		for _, tenants := range []int{1, 1000} {
			for _, n := range lengths {
				b.Run(fmt.Sprintf("endpoints=%d/tenants=%d/waiting=%d", endpoints, tenants, n), func(b *testing.B) {
					l := newLobby(b, n, n/2, tenants, endpoints)
					b.ReportAllocs()
					i := 0
					for b.Loop() {
						i++
						l.turn(b, l.ends[i%endpoints])
					}
				})
			}
		}
	}
}

// One comes and waits, and one somewhere in line leaves.
func BenchmarkLeave(b *testing.B) {
	for _, tenants := range []int{1, 1000} {
		for _, n := range lengths {
			b.Run(fmt.Sprintf("tenants=%d/waiting=%d", tenants, n), func(b *testing.B) {
				l := newLobby(b, n, n/2, tenants, 4)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					l.push(b)
					i += 7919
					l.out = l.all[i%len(l.all)]
					l.queue.Remove(&l.out.Waiter, l.now)
				}
			})
		}
	}
}

// All wait for other endpoints, and one that is idle takes the last of the longest
// line.
func BenchmarkSteal(b *testing.B) {
	for _, endpoints := range []int{4, 256, 1000} {
		for _, tenants := range []int{1, 1000} {
			for _, n := range lengths {
				b.Run(fmt.Sprintf("endpoints=%d/tenants=%d/waiting=%d", endpoints, tenants, n), func(b *testing.B) {
					l := newLobby(b, n, n, tenants, endpoints)
					idle := &end{Endpoint: new(llmlb.Endpoint)}
					l.of[idle.Endpoint] = idle
					l.all[n].home = l.ends[n%endpoints]
					b.ReportAllocs()
					for b.Loop() {
						l.out.patience = 1
						l.push(b)
						idle.slots, l.free = 1, idle
						last := l.queue.kinds[0].longestBut(idle.Endpoint, l.queue.classes[0]).last()
						l.all[last.Call.Attempts].patience = 0
						l.queue.Freed(idle.Endpoint, l.now)
						if idle.open != 1 {
							b.Fatal("nobody took the room")
						}
						idle.slots, idle.open, l.free = 0, 0, nil
						l.queue.Settle(&l.out.Waiter, 50)
					}
				})
			}
		}
	}
}

// A look at the queue, as a scrape of the metrics takes it.
func BenchmarkStatus(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			l := newLobby(b, n, n/2, 1000, 256)
			b.ReportAllocs()
			for b.Loop() {
				l.queue.Status(l.now)
			}
		})
	}
}

// A server that goes down sends all who wait for it elsewhere.
func BenchmarkDisband(b *testing.B) {
	for _, n := range lengths {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				l := newLobby(b, n, n/2, 1, 1)
				l.ends[0].down = true
				b.StartTimer()
				l.queue.Freed(l.ends[0].Endpoint, l.now)
			}
		})
	}
}

// Each waits for another model, of which the endpoint serves none.
func BenchmarkKinds(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("kinds=%d", n), func(b *testing.B) {
			s := newSite(b, 0)
			for i := range n {
				g := s.guest("", interactive, fmt.Sprint(i%10), 100)
				g.Kind = fmt.Sprint("model ", i)
				s.waits(g)
			}
			s.ends[0].model, s.ends[0].slots = "another", 1
			b.ReportAllocs()
			for b.Loop() {
				s.queue.Freed(s.ends[0].Endpoint, s.now)
			}
		})
	}
}
