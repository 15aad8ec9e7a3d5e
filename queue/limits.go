package queue

import (
	"container/heap"
	"sync"
	"time"
)

// Limits counts what tenants and clients have open, and the tokens that tenants
// use a minute. There is one for each pool, and it lives as long: reloads lose
// no count. It has no rules of its own: they come with each Call, so a reload
// changes them for the next one.
//
// A Call asks twice, since its tokens are known only after its body was read: it
// enters with [Limits.Enter], before the body, and spends its tokens with
// [Limits.Spend]. Whatever refuses it, no other limit has counted it, or has when
// it has left. All methods may be called by many at once.
type Limits struct {
	mu      sync.Mutex
	tenants map[string]*account
	clients map[string]int // Calls open
	owing   owing
}

// Ask is whom a Call is counted for, and what limits there are for them; 0 is
// none.
type Ask struct {
	Tenant, Client   string
	Concurrent       int // Calls the tenant may have open
	ClientConcurrent int // Calls the client may have open
	TokensPerMinute  int // tokens the tenant may use
}

// Ticket is a Call that has entered. It belongs to the Limits that gave it.
type Ticket struct {
	tenant, client    string
	tokens, perMinute int
	spent, left       bool
}

// Denial is why a Call is refused.
type Denial struct {
	// Limit is the option that refuses it, one of the Limit constants.
	Limit string

	// Most is what the option allows.
	Most int

	// RetryAfter is when it may be worth another try: for tokens, when there are
	// enough; for Calls, whose end nobody knows, a second.
	RetryAfter time.Duration
}

// The limits that there are, by the options that set them.
const (
	LimitTenantCalls  = "tenant_limit concurrent"
	LimitTenantTokens = "tenant_limit tokens_per_minute"
	LimitClientCalls  = "client_limit concurrent"
)

// NewLimits returns Limits that have counted nothing.
func NewLimits() *Limits {
	return &Limits{tenants: make(map[string]*account), clients: make(map[string]int)}
}

// Enter counts a Call as open, or says which limit is in the way. A tenant that
// has no token left is refused here already, before its body is read. Whoever has
// a Ticket must Leave.
func (l *Limits) Enter(now time.Time, who Ask) (*Ticket, *Denial) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(now)
	a := l.tenants[who.Tenant]
	switch {
	case who.ClientConcurrent > 0 && l.clients[who.Client] >= who.ClientConcurrent:
		return nil, &Denial{Limit: LimitClientCalls, Most: who.ClientConcurrent, RetryAfter: time.Second}
	case a != nil && who.Concurrent > 0 && a.open >= who.Concurrent:
		return nil, &Denial{Limit: LimitTenantCalls, Most: who.Concurrent, RetryAfter: time.Second}
	case a != nil && who.TokensPerMinute > 0:
		if w := a.wait(now, 1, who.TokensPerMinute); w > 0 {
			return nil, &Denial{Limit: LimitTenantTokens, Most: who.TokensPerMinute, RetryAfter: w}
		}
	}
	a = l.account(who.Tenant)
	a.open++
	l.clients[who.Client]++
	return &Ticket{tenant: who.Tenant, client: who.Client}, nil
}

// Spend takes the Call's tokens, prompt and expected answer, from what its tenant
// may use a minute; perMinute 0 is no limit. A Call that is refused has spent
// nothing, may try again, and must Leave. A Call spends once.
//
// A Call that needs more than a minute's tokens may have them when none are
// missing. The tenant then waits until they have come.
func (l *Limits) Spend(now time.Time, t *Ticket, tokens, perMinute int) *Denial {
	l.mu.Lock()
	defer l.mu.Unlock()
	if perMinute <= 0 || t.spent || t.left {
		return nil
	}
	a := l.tenants[t.tenant] // there is one: the Call is open
	if w := a.wait(now, tokens, perMinute); w > 0 {
		return &Denial{Limit: LimitTenantTokens, Most: perMinute, RetryAfter: w}
	}
	t.spent, t.tokens, t.perMinute = true, max(0, tokens), perMinute
	a.take(now, t.tokens, perMinute)
	return nil
}

// Settle replaces the tokens that a Call was to use by those it did use. What it
// used more is taken even if it is not there: the tenant owes it. It may be called
// again, with a better number, and before or after Leave.
func (l *Limits) Settle(now time.Time, t *Ticket, actual int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !t.spent {
		return
	}
	more := max(0, actual) - t.tokens
	t.tokens += more
	switch {
	case more > 0:
		a := l.account(t.tenant)
		a.take(now, more, t.perMinute)
		l.rest(now, a)
	case more < 0:
		if a := l.tenants[t.tenant]; a != nil { // whoever is not known has a full bucket
			a.give(now, -more, t.perMinute)
			if a.index >= 0 {
				heap.Fix(&l.owing, a.index)
			}
		}
	}
}

// Leave ends a Call. Only the first time counts.
func (l *Limits) Leave(now time.Time, t *Ticket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	if l.clients[t.client]--; l.clients[t.client] == 0 {
		delete(l.clients, t.client)
	}
	a := l.tenants[t.tenant]
	a.open--
	l.rest(now, a)
	l.forget(now)
}
