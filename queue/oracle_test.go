package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// oracle is the queue's order once more, as plainly as it can be said: it looks
// at everybody who waits each time. It sees what the queue tries, and fails the
// test if it is somebody else's turn.
type oracle struct {
	*site
	waiting []*guest // in order of arrival
	classes []*Class // by rank
	counter map[key]float64
	charged map[*guest]float64
	refund  map[*guest]float64 // what of its tenant's counter a guest may get back
	last    map[*Class]float64
	owed    map[*Class]float64
	most    map[*Class]float64
	barred  map[string]int // kinds of which one was tried in vain since the world changed, and the highest class of those
	only    *guest         // the newcomer, which is tried before it waits
}

type key struct {
	class  *Class
	tenant string
}

func newOracle(t testing.TB, slots ...int) *oracle {
	o := &oracle{
		site: newSite(t, slots...), counter: make(map[key]float64), charged: make(map[*guest]float64), refund: make(map[*guest]float64),
		last: make(map[*Class]float64), owed: make(map[*Class]float64), most: make(map[*Class]float64), barred: make(map[string]int),
	}
	o.queue.world.Place = o.tried
	return o
}

func (o *oracle) tried(c *llmlb.Call, now time.Time) Placement {
	g := o.guests[c]
	if want := o.next(); g != want {
		o.t.Fatalf("%s is tried, and it is the turn of %s", o.tell(g), o.tell(want))
	}
	p := o.place(c, now)
	if p.Answer == Placed {
		o.granted(g)
	} else {
		o.bar(g)
	}
	return p
}

func (o *oracle) bar(g *guest) {
	if rank, some := o.barred[g.Kind]; !some || g.Class.Rank < rank {
		o.barred[g.Kind] = g.Class.Rank
	}
}

func (o *oracle) isBarred(g *guest) bool {
	rank, some := o.barred[g.Kind]
	return some && g.Class.Rank >= rank
}

func (o *oracle) held(c *Class) bool { return c.Saturation > 0 && o.saturation >= c.Saturation }

func (o *oracle) next() *guest {
	if o.only != nil {
		return o.only
	}
	for _, c := range slices.Backward(o.classes) {
		if g := o.first(c); g != nil && o.owed[c] > 0 && o.owed[c] >= float64(g.Call.InputTokens) {
			return g
		}
	}
	for _, c := range o.classes {
		if g := o.first(c); g != nil && !o.held(c) {
			return g
		}
	}
	return nil
}

func (o *oracle) first(c *Class) (first *guest) {
	for _, g := range o.waiting {
		if g.Class == c && !o.isBarred(g) && (first == nil || o.counter[g.account()] < o.counter[first.account()]) {
			first = g
		}
	}
	return first
}

func (g *guest) account() key { return key{g.Class, g.Tenant} }

func (o *oracle) count(c *Class) (n int) {
	for _, g := range o.waiting {
		if g.Class == c {
			n++
		}
	}
	return n
}

// lift is for a tenant of whom nobody waits.
func (o *oracle) lift(g *guest) {
	least, some := o.last[g.Class], false
	for _, w := range o.waiting {
		switch n := o.settled(w); {
		case w.account() == g.account():
			return
		case w.Class == g.Class && (!some || n < least):
			least, some = n, true
		}
	}
	o.counter[g.account()] = max(o.counter[g.account()], least)
}

// settled is what a guest's tenant will have had when nothing is charged for its
// open ones.
func (o *oracle) settled(g *guest) float64 {
	n := o.counter[g.account()]
	for other, refund := range o.refund {
		if other.account() == g.account() {
			n -= refund
		}
	}
	return n
}

func (o *oracle) granted(g *guest) {
	o.left(g)
	cost := float64(g.Call.InputTokens)
	o.last[g.Class] = o.settled(g)
	more := cost - o.charged[g]
	dearest := more
	for _, c := range o.classes {
		dearest = max(dearest, o.most[c])
	}
	for _, c := range o.classes {
		owed := o.owed[c] + c.Share*more
		if c == g.Class {
			owed -= more
		}
		if o.owed[c] = max(0, min(owed, o.most[c]+c.Share*dearest)); o.count(c) == 0 {
			o.owed[c] = 0
		}
	}
	o.charge(g, cost)
	o.refund[g] = cost / max(1, g.Weight)
}

func (o *oracle) charge(g *guest, cost float64) {
	o.counter[g.account()] += (cost - o.charged[g]) / max(1, g.Weight)
	o.charged[g] = cost
}

// left is for one that waits no more.
func (o *oracle) left(g *guest) {
	for i, w := range o.waiting {
		if w == g {
			o.waiting = append(o.waiting[:i:i], o.waiting[i+1:]...)
			break
		}
	}
	if o.count(g.Class) == 0 {
		o.owed[g.Class], o.most[g.Class] = 0, 0
	}
}

// arrives is a Push, and what must come of it.
func (o *oracle) arrives(g *guest) {
	o.lift(g)
	alone := true
	for _, w := range o.waiting {
		alone = alone && w.Kind != g.Kind
	}
	clear(o.barred)
	for _, w := range o.waiting {
		o.barred[w.Kind] = 0 // only its own kind is tried now
	}
	delete(o.barred, g.Kind)
	if alone && !o.held(g.Class) {
		o.only = g
	} else {
		o.waits(g)
	}
	entry := o.push(g)
	if o.only != nil && entry == Waiting {
		o.waits(g)
	}
	o.only = nil
}

func (o *oracle) waits(g *guest) {
	at := len(o.waiting)
	for at > 0 && g.seq > 0 && o.waiting[at-1].seq > g.seq {
		at--
	}
	o.waiting = append(o.waiting[:at:at], append([]*guest{g}, o.waiting[at:]...)...)
	o.most[g.Class] = max(o.most[g.Class], float64(g.Call.InputTokens))
}

func (o *oracle) leaves(g *guest) {
	o.left(g)
	clear(o.barred)
	for _, w := range o.waiting {
		if w.Kind != g.Kind {
			o.barred[w.Kind] = 0
		}
	}
	if !o.queue.Remove(&g.Waiter, o.now) {
		o.t.Fatalf("%s did not wait", g.name)
	}
}

func (o *oracle) tell(g *guest) string {
	if g == nil {
		return "nobody"
	}
	return g.name + " of " + g.Class.Name + "/" + g.Tenant + "/" + g.Kind
}

// freed tells of an endpoint, as site.freed does.
func (o *oracle) freed(e *end) {
	for again := true; again; {
		clear(o.barred)
		again = o.queue.Freed(e.Endpoint, o.now) || o.queue.Again()
	}
}
