package queue

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// enter is Enter for a Call that must get in.
func enter(t *testing.T, l *Limits, now time.Time, who Ask) *Ticket {
	t.Helper()
	ticket, denied := l.Enter(now, who)
	if denied != nil {
		t.Fatalf("%+v is refused: %+v", who, denied)
	}
	return ticket
}

// nothingOpen fails if anything is still counted.
func nothingOpen(t *testing.T, l *Limits) {
	t.Helper()
	if len(l.clients) != 0 {
		t.Errorf("clients have Calls open: %v", l.clients)
	}
	for name, a := range l.tenants {
		if a.open != 0 || a.index < 0 {
			t.Errorf("tenant %q has %d Calls open, at %d", name, a.open, a.index)
		}
	}
	if len(l.tenants) != len(l.owing) {
		t.Errorf("%d tenants are remembered, %d owe", len(l.tenants), len(l.owing))
	}
}

func TestConcurrentCalls(t *testing.T) {
	l := NewLimits()
	alice := Ask{Tenant: "alice", Client: "a", Concurrent: 2}
	one, two := enter(t, l, at(0), alice), enter(t, l, at(0), alice)
	_, denied := l.Enter(at(0), alice)
	if denied == nil || *denied != (Denial{LimitTenantCalls, 2, time.Second}) {
		t.Errorf("the third is told %+v", denied)
	}
	bob := enter(t, l, at(0), Ask{Tenant: "bob", Client: "a", Concurrent: 2})
	if _, denied = l.Enter(at(0), Ask{Tenant: "carol", Client: "a", ClientConcurrent: 3}); denied == nil || denied.Limit != LimitClientCalls || denied.Most != 3 {
		t.Errorf("the client's fourth is told %+v", denied)
	}
	// A reload that raises a limit is felt at once, and so is one that lowers it.
	alice.Concurrent = 3
	three := enter(t, l, at(0), alice)
	alice.Concurrent = 1
	l.Leave(at(1), one)
	l.Leave(at(1), one)
	l.Leave(at(1), one)
	if _, denied = l.Enter(at(1), alice); denied == nil {
		t.Error("with two open the lowered limit lets one more in")
	}
	l.Leave(at(2), two)
	l.Leave(at(2), three)
	l.Leave(at(2), enter(t, l, at(2), alice))
	l.Leave(at(2), bob)
	nothingOpen(t, l)
}

// The story: a tenant with one concurrent call and tokens for two. B is refused
// because A runs; when A has ended, C must be served, for B has used nothing.
func TestARefusedCallUsesUpNothing(t *testing.T) {
	l := NewLimits()
	who := Ask{Tenant: "t", Client: "c", Concurrent: 1, TokensPerMinute: 200}
	a := enter(t, l, at(0), who)
	if d := l.Spend(at(0), a, 100, 200); d != nil {
		t.Fatalf("A is told %+v", d)
	}
	if _, d := l.Enter(at(0), who); d == nil || d.Limit != LimitTenantCalls {
		t.Fatalf("B is told %+v", d)
	}
	l.Leave(at(0), a)
	c := enter(t, l, at(0), who)
	if d := l.Spend(at(0), c, 100, 200); d != nil {
		t.Fatalf("C is told %+v", d)
	}
	l.Leave(at(0), c)
	// And the other way around: who has no tokens left occupies no place, neither
	// the tenant's nor the client's.
	if _, d := l.Enter(at(0), who); d == nil || *d != (Denial{LimitTenantTokens, 200, 300 * time.Millisecond}) {
		t.Fatalf("D is told %+v", d)
	}
	e := enter(t, l, at(30), who)
	if d := l.Spend(at(30), e, 150, 200); d == nil || *d != (Denial{LimitTenantTokens, 200, 15 * time.Second}) {
		t.Fatalf("E is told %+v", d)
	}
	if d := l.Spend(at(45), e, 150, 200); d != nil {
		t.Errorf("E is told %+v when its tokens have come", d)
	}
	l.Leave(at(45), e)
	nothingOpen(t, l)
}

func TestSettlement(t *testing.T) {
	l := NewLimits()
	who := Ask{Tenant: "t", TokensPerMinute: 600}
	for _, test := range []struct {
		name             string
		expected, actual int
		free             int // tokens there at once, of 600
		after            bool
	}{
		{"as expected", 400, 400, 200, false},
		{"less", 400, 100, 500, false},
		{"more", 100, 400, 200, false},
		{"less, told after it has left", 400, 100, 500, true},
		{"more, told after it has left", 100, 400, 200, true},
		{"nothing at all", 600, -5, 600, true},
	} {
		ticket := enter(t, l, at(0), who)
		if d := l.Spend(at(0), ticket, test.expected, 600); d != nil {
			t.Fatalf("%s: %+v", test.name, d)
		}
		if test.after {
			l.Leave(at(0), ticket)
		}
		l.Settle(at(0), ticket, test.actual)
		l.Settle(at(0), ticket, test.actual)
		l.Leave(at(0), ticket)
		next := enter(t, l, at(0), Ask{Tenant: "t"})
		if d := l.Spend(at(0), next, test.free+1, 600); test.free < 600 && d == nil {
			t.Errorf("%s: more than %d tokens are there", test.name, test.free)
		}
		if d := l.Spend(at(0), next, test.free, 600); d != nil {
			t.Errorf("%s: %d tokens are not there: %+v", test.name, test.free, d)
		}
		l.Settle(at(0), next, 0)
		l.Leave(at(0), next)
		l.Settle(at(0), ticket, 0)
		nothingOpen(t, l)
	}
}

// A debt is paid before the next Call, however small that is.
func TestDebtIsPaidFirst(t *testing.T) {
	l := NewLimits()
	who := Ask{Tenant: "t", TokensPerMinute: 600}
	first := enter(t, l, at(0), who)
	l.Spend(at(0), first, 10, 600)
	l.Settle(at(0), first, 1200)
	l.Leave(at(0), first)
	if _, d := l.Enter(at(30), who); d == nil || d.RetryAfter != 30*time.Second+100*time.Millisecond {
		t.Errorf("in debt: %+v", d)
	}
	l.Leave(at(61), enter(t, l, at(61), who))
}

// A Call that is larger than the whole bucket is served, when the bucket is full.
func TestCallLargerThanTheBucket(t *testing.T) {
	l := NewLimits()
	ticket := enter(t, l, at(0), Ask{Tenant: "t"})
	if d := l.Spend(at(0), ticket, 6000, 600); d != nil {
		t.Fatalf("%+v", d)
	}
	l.Leave(at(0), ticket)
	ticket = enter(t, l, at(541), Ask{Tenant: "t", TokensPerMinute: 600})
	if d := l.Spend(at(541), ticket, 6000, 600); d == nil || d.RetryAfter != 59*time.Second {
		t.Errorf("before it is full: %+v", d)
	}
	if d := l.Spend(at(600), ticket, 6000, 600); d != nil {
		t.Errorf("when it is full: %+v", d)
	}
}

// Where nothing is limited, nothing is charged, and a limit that a reload brings
// begins with a full bucket.
func TestNoLimits(t *testing.T) {
	l := NewLimits()
	ticket := enter(t, l, at(0), Ask{})
	if d := l.Spend(at(0), ticket, 1<<40, 0); d != nil {
		t.Errorf("%+v", d)
	}
	l.Settle(at(0), ticket, 1<<40)
	l.Leave(at(0), ticket)
	nothingOpen(t, l)
	if len(l.tenants) != 0 {
		t.Errorf("remembers %d tenants", len(l.tenants))
	}
}

// The story: a limit of 5, and 200 requests in the same instant. Never may a
// sixth be served.
func TestManyAtOnce(t *testing.T) {
	l := NewLimits()
	who := Ask{Tenant: "t", Client: "c", Concurrent: 5, ClientConcurrent: 7, TokensPerMinute: 1000}
	var open, most, served atomic.Int64
	var all sync.WaitGroup
	gate := make(chan struct{})
	for range 200 {
		all.Go(func() {
			<-gate
			for {
				ticket, denied := l.Enter(at(0), who)
				if denied != nil {
					runtime.Gosched()
					continue
				}
				n := open.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				runtime.Gosched()
				if l.Spend(at(0), ticket, 5, 1000) == nil {
					served.Add(1)
				}
				open.Add(-1)
				l.Settle(at(0), ticket, 4)
				l.Leave(at(0), ticket)
				l.Leave(at(0), ticket)
				return
			}
		})
	}
	close(gate)
	all.Wait()
	if most.Load() > 5 || served.Load() != 200 {
		t.Errorf("%d at once, %d served", most.Load(), served.Load())
	}
	if d := l.tenants["t"].owed(at(0)); d != span(800, 1000) {
		t.Errorf("owes %v, want the time of 800 tokens", d)
	}
	nothingOpen(t, l)
}

// A million names do not fill the memory, whether they use tokens or not, and a
// tenant with a Call open is never forgotten.
func TestMemoryIsBounded(t *testing.T) {
	l := NewLimits()
	held := enter(t, l, at(0), Ask{Tenant: "held", Concurrent: 1})
	for i := range 1_000_000 {
		name := fmt.Sprint(i)
		now := at(float64(i) * 1e-6)
		ticket := enter(t, l, now, Ask{Tenant: name, Client: name, Concurrent: 1, TokensPerMinute: 10})
		if i%2 == 0 {
			l.Spend(now, ticket, 1+i%10, 10)
		}
		l.Leave(now, ticket)
	}
	if n := len(l.tenants); n != maxOwing+1 || len(l.owing) != maxOwing || len(l.clients) != 1 {
		t.Errorf("remembers %d tenants, %d that owe, %d clients", n, len(l.owing), len(l.clients))
	}
	if _, d := l.Enter(at(2), Ask{Tenant: "held", Concurrent: 1}); d == nil {
		t.Error("a tenant with a Call open was forgotten")
	}
	l.Leave(at(2), held)
	l.Leave(at(120), enter(t, l, at(120), Ask{}))
	if len(l.tenants) != 0 {
		t.Errorf("remembers %d tenants whose buckets are full", len(l.tenants))
	}
}

// Against a plain account of the same rules, over random lives of Calls.
func TestLimitsAgainstAPlainAccount(t *testing.T) {
	for seed := range uint64(50) {
		steps := make([]byte, 3000)
		r := rand.NewChaCha8([32]byte{byte(seed)})
		_, _ = r.Read(steps)
		against(t, steps)
	}
}

func FuzzLimits(f *testing.F) {
	f.Add([]byte{0, 1, 2, 1, 9, 9, 2, 3, 1, 3, 0, 0})
	f.Add([]byte{0, 7, 1, 0, 7, 1, 0, 7, 1, 4, 200, 0, 1, 0, 255, 2, 0, 255})
	f.Fuzz(func(t *testing.T, steps []byte) {
		if len(steps) > 3000 {
			t.Skip("long enough")
		}
		against(t, steps)
	})
}

// plain is a tenant's account kept in the plainest way.
type plain struct {
	open  int
	level float64
	seen  bool
	at    time.Time
}

func (p *plain) refill(now time.Time, perMinute int) {
	if !p.seen {
		p.seen, p.level = true, float64(perMinute)
	} else {
		p.level = min(float64(perMinute), p.level+now.Sub(p.at).Minutes()*float64(perMinute))
	}
	p.at = now
}

// against does the steps, three bytes each, with Limits and with a plain account,
// and compares.
func against(t *testing.T, steps []byte) {
	t.Helper()
	const perMinute, concurrent, clientConcurrent = 600, 3, 5
	type call struct {
		ticket *Ticket
		tenant string
		client string
		tokens int
		left   bool
	}
	l, now := NewLimits(), at(0)
	tenants, clients := map[string]*plain{}, map[string]int{}
	var calls []*call
	account := func(name string) *plain {
		if tenants[name] == nil {
			tenants[name] = &plain{}
		}
		tenants[name].refill(now, perMinute)
		return tenants[name]
	}
	// close reports whether the plain account's floats leave it open which of the
	// two is right.
	unsure := func(level, need float64) bool { return level > need-1e-3 && level < need+1e-3 }
	leave := func(c *call) {
		l.Leave(now, c.ticket)
		if !c.left {
			c.left = true
			account(c.tenant).open--
			clients[c.client]--
		}
	}
	for ; len(steps) >= 3; steps = steps[3:] {
		a, b := int(steps[1]), int(steps[2])
		var c *call
		if len(calls) > 0 {
			c = calls[a%len(calls)]
		}
		switch op := steps[0] % 5; {
		case op == 0:
			who := Ask{
				Tenant: string(rune('a' + a%4)), Client: string(rune('0' + b%3)),
				Concurrent: concurrent, ClientConcurrent: clientConcurrent, TokensPerMinute: perMinute,
			}
			p := account(who.Tenant)
			if unsure(p.level, 1) {
				return
			}
			want := p.open < concurrent && clients[who.Client] < clientConcurrent && p.level >= 1
			ticket, denied := l.Enter(now, who)
			if (denied == nil) != want || (ticket == nil) != (denied != nil) {
				t.Fatalf("Enter %+v: %+v; open %d, client %d, level %v", who, denied, p.open, clients[who.Client], p.level)
			}
			if denied != nil && denied.RetryAfter <= 0 {
				t.Fatalf("try again after %v", denied.RetryAfter)
			}
			if ticket != nil {
				p.open++
				clients[who.Client]++
				calls = append(calls, &call{ticket: ticket, tenant: who.Tenant, client: who.Client, tokens: -1})
			}
		case op == 1 && c != nil && !c.left && c.tokens < 0:
			p, tokens := account(c.tenant), 4*b
			need := min(float64(tokens), perMinute)
			if unsure(p.level, need) && p.level != need {
				return
			}
			denied := l.Spend(now, c.ticket, tokens, perMinute)
			if (denied == nil) != (p.level >= need) {
				t.Fatalf("Spend %d: %+v; level %v", tokens, denied, p.level)
			}
			if denied == nil {
				p.level -= float64(tokens)
				c.tokens = tokens
			}
		case op == 2 && c != nil && c.tokens >= 0:
			p, tokens := account(c.tenant), 6*b
			l.Settle(now, c.ticket, tokens)
			p.level = min(perMinute, p.level-float64(tokens-c.tokens))
			c.tokens = tokens
		case op == 3 && c != nil:
			leave(c)
		case op == 4:
			now = now.Add(time.Duration(a) * 50 * time.Millisecond)
		}
		for name, a := range l.tenants {
			if p := tenants[name]; a.open != p.open || a.open < 0 || a.open > concurrent {
				t.Fatalf("tenant %s has %d open, want %d", name, a.open, p.open)
			}
		}
	}
	for _, c := range calls {
		leave(c)
	}
	nothingOpen(t, l)
	for name, n := range clients {
		if n != 0 {
			t.Fatalf("the plain account is wrong: client %s has %d", name, n)
		}
	}
}
