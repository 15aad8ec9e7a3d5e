package llmlb

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/cespare/xxhash/v2"
)

// pools holds every living Pool by name. Configurations and open Leases hold
// references; the last one out removes the pool.
var pools = caddy.NewUsagePool()

// Pool is the state of a named set of endpoints that serve together.
type Pool struct {
	name   string
	shared bool // lives in pools

	mu        sync.Mutex
	endpoints map[string]*Endpoint
	order     []*Endpoint // in the order they were first seen
	running   []*Settings // of started configurations, newest last
	leases    int
	cacheIDs  uint32
	coldTurns uint64
	attached  map[string]any
	uses      map[use]*usage
	errors    estimateErrors
	homes     homes
	picks     picks
	askers    askers
	budget    budget
	begun     time.Time // when the first endpoint was put to use

	clock       time.Time // the zero of Briefs: when they were first asked for
	terms       terms     // under which they were asked for last
	termsNumber uint64

	readiness, canary question // that checks ask under the current settings

	tally tally

	wake    chan struct{}
	onState func(Change)
	onRoom  atomic.Pointer[func(*Endpoint)]             // see OnRoom
	onQueue atomic.Pointer[func(time.Time) QueueStatus] // see OnQueueStatus
}

// Acquire returns the named pool, made if needed, and takes a reference that
// Release gives back.
func Acquire(name string) *Pool {
	v, _, _ := pools.LoadOrNew(name, func() (caddy.Destructor, error) {
		p := NewPool(name)
		p.shared = true
		return p, nil
	})
	return v.(*Pool)
}

// Release gives back a reference taken by Acquire.
func (p *Pool) Release() { _, _ = pools.Delete(p.name) }

// NewPool returns a pool that is not shared: for the simulator and for tests.
func NewPool(name string) *Pool {
	return &Pool{
		name:      name,
		endpoints: make(map[string]*Endpoint),
		attached:  make(map[string]any),
		uses:      make(map[use]*usage),
		errors:    newEstimateErrors(),
		wake:      make(chan struct{}, 1),
	}
}

// Pools calls f with every living pool, sorted by name.
func Pools(f func(*Pool)) {
	var list []*Pool
	pools.Range(func(_, v any) bool {
		list = append(list, v.(*Pool))
		return true
	})
	slices.SortFunc(list, func(a, b *Pool) int { return cmp.Compare(a.name, b.name) })
	for _, p := range list {
		f(p)
	}
}

// Destruct is called by the UsagePool when nobody uses the pool any more. The
// pool has nothing to close: whoever runs loops for it stops them itself.
func (p *Pool) Destruct() error { return nil }

// Name returns the pool's name.
func (p *Pool) Name() string { return p.name }

// Lock takes the pool's lock: for a choice and its reservation, and nothing
// that waits.
func (p *Pool) Lock() { p.mu.Lock() }

// Unlock gives the pool's lock back.
func (p *Pool) Unlock() { p.mu.Unlock() }

// Attach returns the state stored under key, made by make on first use. It
// lives as long as the pool: the seat of the prefix index and the queue.
func (p *Pool) Attach(key string, make func() any) any {
	p.mu.Lock()
	defer p.mu.Unlock()
	v, ok := p.attached[key]
	if !ok {
		v = make()
		p.attached[key] = v
	}
	return v
}

// Bind gives every member of the settings its Endpoint and counts the
// configuration as a user of each until Unbind. Names and addresses must be
// unique within the pool.
func (p *Pool) Bind(s *Settings) error {
	s.byAddress = make(map[string]*Member, len(s.Members))
	names := make(map[string]string, len(s.Members))
	p.nameMembers(s)
	for i := range s.Members {
		m := &s.Members[i]
		if s.byAddress[m.Address] != nil {
			return fmt.Errorf("upstream %q is listed twice in pool %q", m.Address, p.name)
		}
		if other, taken := names[m.Name]; taken {
			return fmt.Errorf("endpoint name %q is used for both %q and %q in pool %q", m.Name, other, m.Address, p.name)
		}
		s.byAddress[m.Address], names[m.Name] = m, m.Address
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range s.Members {
		m := &s.Members[i]
		m.Endpoint = p.endpoint(m.Address, m.Name)
		m.Endpoint.configs++
	}
	return nil
}

// nameMembers names those that the operator did not name. Among 500 servers two
// have the same six digits in one case of a hundred: such ones get all that there
// are.
func (p *Pool) nameMembers(s *Settings) {
	taken := make(map[string]int, len(s.Members))
	for i := range s.Members {
		taken[cmp.Or(s.Members[i].Name, DefaultName(p.name, s.Members[i].Address))]++
	}
	for i := range s.Members {
		if m := &s.Members[i]; m.Name == "" {
			if m.Name = DefaultName(p.name, m.Address); taken[m.Name] > 1 {
				m.Name = longName(p.name, m.Address)
			}
		}
	}
}

// Unbind ends a configuration's use of its endpoints.
func (p *Pool) Unbind(s *Settings) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range s.Members {
		if e := s.Members[i].Endpoint; e != nil {
			e.configs--
			p.dropUnused(e)
		}
	}
	p.poke()
}

// Start makes the settings current. Names and drain marks take effect.
func (p *Pool) Start(s *Settings, now time.Time) {
	p.mu.Lock()
	p.running = append(p.running, s)
	p.apply(s, now)
	p.mu.Unlock()
	p.closeCircuits(s, now)
	p.roomAnywhere()
}

// Stop ends the settings; the newest still running become current again.
func (p *Pool) Stop(s *Settings, now time.Time) {
	p.mu.Lock()
	if i := slices.Index(p.running, s); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
	var current *Settings
	if n := len(p.running); n > 0 {
		current = p.running[n-1]
		p.apply(current, now)
	} else {
		p.poke()
	}
	p.mu.Unlock()
	if current != nil {
		p.closeCircuits(current, now)
	}
	p.roomAnywhere()
}

func (p *Pool) apply(s *Settings, now time.Time) {
	for i := range s.Members {
		m := &s.Members[i]
		if e := m.Endpoint; e != nil {
			e.name.Store(&m.Name)
			from, _, _ := e.State(now)
			if e.drain.set(&e.drain.configured, m.Drain, now); from == Drained && !e.drain.on() {
				e.returns(now)
			}
			e.joins(now)
		}
	}
	p.forgive(s, now)
	p.poke()
}

// forgive lets what checks have found be forgotten where the settings no longer
// make them, or make others: else it would come back a day later, when they are
// turned on again.
func (p *Pool) forgive(s *Settings, now time.Time) {
	readiness, canary := s.Checks.asks()
	for _, e := range p.order {
		if readiness != p.readiness {
			e.alive.forgive(now)
		}
		if canary != p.canary {
			e.generating.forgive(now)
		}
		e.touch() // for this, and for what apply has changed
	}
	p.readiness, p.canary = readiness, canary
}

// closeCircuits lets an endpoint work again whose circuit was opened under
// settings that are no more, when the current ones have none.
func (p *Pool) closeCircuits(s *Settings, now time.Time) {
	if s.Circuit.on() {
		return
	}
	for _, e := range p.Endpoints() {
		e.change(now, func() {
			if e.circuit.open {
				e.circuit.reset(now)
			}
		})
	}
}

// Current returns the settings of the newest started configuration, or nil.
func (p *Pool) Current() *Settings {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current()
}

// current is Current under the pool's lock.
func (p *Pool) current() *Settings {
	if n := len(p.running); n > 0 {
		return p.running[n-1]
	}
	return nil
}

// Sight returns the endpoint of a dynamic upstream, made at first sight, and
// notes that it is still in use. Under the pool's lock.
func (p *Pool) Sight(address string, now time.Time) *Endpoint {
	e := p.endpoints[address]
	if e == nil {
		e = p.endpoint(address, DefaultName(p.name, address))
		e.joins(now)
		p.poke()
	}
	e.dynamic = e.configs == 0
	e.lastUse = now
	return e
}

// dynamicIdle is how long a dynamic upstream is remembered after it was last
// seen. Caddy forgets its own state of one after an hour; an inference server
// that nobody has named for ten minutes is gone.
const dynamicIdle = 10 * time.Minute

// Sweep forgets dynamic endpoints that nobody has seen for a while. An order to
// drain outlives that.
func (p *Pool) Sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range slices.Clone(p.order) {
		if e.dynamic && !e.drain.ordered && e.leases == 0 && now.Sub(e.lastUse) > dynamicIdle {
			e.dynamic = false
			p.dropUnused(e)
		}
	}
}

// Living returns the endpoint that now has e's address: e itself, unless it was
// forgotten and its address named again since. A Call that began under an older
// configuration must see what the newest says of a server. Under the pool's lock.
func (p *Pool) Living(e *Endpoint) *Endpoint {
	if e.gone {
		if now := p.endpoints[e.address]; now != nil {
			return now
		}
	}
	return e
}

// Endpoints returns the living endpoints, in the order they were first seen.
func (p *Pool) Endpoints() []*Endpoint {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// Wake returns a channel that gets a value when endpoints or settings changed,
// for the one goroutine that keeps the background loops.
func (p *Pool) Wake() <-chan struct{} { return p.wake }

// OnState sets the function that is told about changes of state. It is called
// outside the lock.
func (p *Pool) OnState(f func(Change)) {
	p.mu.Lock()
	p.onState = f
	p.mu.Unlock()
}

func (p *Pool) changed(c Change) {
	c.Endpoint.counts.changes[c.To].Add(1)
	p.mu.Lock()
	f := p.onState
	p.mu.Unlock()
	if f != nil {
		f(c)
	}
}

// Reserve books a Call's work at an endpoint: under the pool's lock, in the
// same critical section as the choice. A Call that generates nothing books no
// work and counts in no limit; its Lease only keeps the endpoint alive.
func (p *Pool) Reserve(e *Endpoint, now time.Time, w Work) *Lease {
	if p.endpoints[e.address] == nil {
		// A Call that began under an older configuration may still choose an
		// endpoint that has been forgotten since: its account counts again.
		p.add(e)
	}
	phase := Prefill
	ahead, others, effort := e.ledger.own.effort, e.ledger.othersPrefill(now), w.Effort()
	if w.none() {
		phase = Visit
	} else {
		e.ledger.reserve(w)
	}
	e.leases++
	e.reach.tried(now)
	e.touch()
	p.leases++
	if p.leases == 1 && p.shared {
		// The pool must outlive its last stream, so that a configuration which
		// names it again finds its accounts.
		pools.LoadOrStore(p.name, p)
	}
	l := &Lease{
		pool: p, endpoint: e, work: w, effort: effort, phase: phase, start: now,
		ahead: ahead, others: others, hidden: e.silent.calls > 0,
	}
	if phase != Visit {
		e.prefills.add(l, now)
		l.trial = e.circuit.begin(now)
	}
	return l
}

// leaseEnded reports whether that was the pool's last open Lease, in which
// case the caller gives the pool's reference back.
func (p *Pool) leaseEnded(e *Endpoint) (last bool) {
	p.leases--
	p.dropUnused(e)
	return p.leases == 0 && p.shared
}

// dropUnused forgets an endpoint that no configuration names and no Lease
// uses. Dynamic ones wait for Sweep: they may be named again at once.
func (p *Pool) dropUnused(e *Endpoint) {
	if e.configs > 0 || e.leases > 0 || e.dynamic || p.endpoints[e.address] != e {
		return
	}
	if s := p.current(); e.drain.ordered && s != nil && s.Dynamic {
		e.dynamic = true // it may be named again, and the order stands
		return
	}
	e.gone = true
	delete(p.endpoints, e.address)
	p.order = slices.DeleteFunc(p.order, func(x *Endpoint) bool { return x == e })
	p.poke()
}

// endpoint returns the endpoint with the address, made if needed.
func (p *Pool) endpoint(address, name string) *Endpoint {
	if e := p.endpoints[address]; e != nil {
		return e
	}
	e := &Endpoint{
		pool: p, address: address, hash: xxhash.Sum64String(address),
		TTFT: NewHistogram(TTFTBounds), FirstByte: NewHistogram(TTFTBounds), ITL: NewHistogram(ITLBounds), cacheID: p.nextCacheID(),
	}
	e.name.Store(&name)
	p.add(e)
	return e
}

func (p *Pool) add(e *Endpoint) {
	e.gone = false
	p.endpoints[e.address] = e
	p.order = append(p.order, e)
}

func (p *Pool) nextCacheID() uint32 {
	p.cacheIDs++
	return p.cacheIDs
}

func (p *Pool) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
