package llmlb

import (
	"maps"
	"slices"
	"sync"
)

// tally counts how requests ended, for metrics. The numbers never go back while
// the pool lives. Every name in it comes from a configuration or from the code.
type tally struct {
	mu       sync.Mutex
	requests map[requestKind]uint64
	refusals map[string]uint64
	tenants  map[string]*TenantTally
	slo      map[sloKind]uint64
}

type requestKind struct {
	class   string
	outcome Outcome
}

// TenantTally is what a tenant that the configuration names has used.
type TenantTally struct {
	Requests, Refused          uint64
	PromptTokens, OutputTokens uint64
}

// maxTallies bounds how many classes and tenants of past configurations are kept.
const maxTallies = 4096

// CountRequest counts a request that has ended: its class, how it ended, and the
// code word of the refusal if it was answered by the gateway. The tenant is what
// metrics call it, empty where there are none; prompt and output are the tokens
// that it has used.
func (p *Pool) CountRequest(class string, o Outcome, refusal, tenant string, prompt, output int) {
	t := &p.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests == nil {
		t.requests, t.refusals, t.tenants = make(map[requestKind]uint64), make(map[string]uint64), make(map[string]*TenantTally)
	}
	if k := (requestKind{class, o}); len(t.requests) < maxTallies || t.requests[k] > 0 {
		t.requests[k]++
	}
	if refusal != "" {
		t.refusals[refusal]++
	}
	if tenant == "" {
		return
	}
	u := t.tenants[tenant]
	if u == nil {
		if len(t.tenants) >= maxTallies {
			return
		}
		u = new(TenantTally)
		t.tenants[tenant] = u
	}
	u.Requests++
	if refusal != "" {
		u.Refused++
	}
	u.PromptTokens += uint64(max(0, prompt))
	u.OutputTokens += uint64(max(0, output))
}

// Requests calls f with how many requests of each class have ended how. All ways of
// a class that has had any are told, those with 0 too: what counts from 0 on can be
// told from what has just been seen first.
func (p *Pool) Requests(f func(class string, o Outcome, n uint64)) {
	p.tally.mu.Lock()
	counted := maps.Clone(p.tally.requests)
	p.tally.mu.Unlock()
	classes := make(map[string]bool)
	for k := range counted {
		classes[k.class] = true
	}
	for class := range classes {
		for _, o := range Outcomes() {
			f(class, o, counted[requestKind{class, o}])
		}
	}
}

// Refusals calls f with how many requests were answered by the gateway, by code
// word.
func (p *Pool) Refusals(f func(reason string, n uint64)) {
	p.tally.mu.Lock()
	counted := maps.Clone(p.tally.refusals)
	p.tally.mu.Unlock()
	for reason, n := range counted {
		f(reason, n)
	}
}

// Tenants calls f with what each tenant that the configuration names has used,
// and "other" with what all others have.
func (p *Pool) Tenants(f func(name string, t TenantTally)) {
	p.tally.mu.Lock()
	counted := make(map[string]TenantTally, len(p.tally.tenants))
	for name, t := range p.tally.tenants {
		counted[name] = *t
	}
	p.tally.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		f(name, counted[name])
	}
}
