// Package selection chooses the endpoint for a Call: filter, score, pick,
// reserve. It also holds the prefix index, which remembers who computed which
// prompt, and the policy module that binds the choice to Caddy's reverse_proxy.
//
// # Who calls it
//
// Package admission asks [Grant] before the proxy runs. Caddy's proxy loop asks
// [Policy.Select] for every attempt; it binds to what was granted, or chooses
// by itself where there is no admission, where upstreams are dynamic, and after
// an attempt that failed. All three ways run the same code, and so does the
// simulator.
//
// # The choice
//
// A choice is one critical section under the pool's lock: no two Calls see the
// same free place. It takes the time and a number for breaking ties as
// arguments, so equal states give equal choices. It looks at every endpoint
// once and allocates nothing that grows with their number.
//
// Filter: not draining, ready, not taken out by checks, not down, not failed for
// this Call before, available by Caddy's own checks, not overloaded, below
// max_concurrent, KV usage plus the Call's new tokens below kv_limit, in this zone.
// If nothing is left, first the KV limit is given up, then the zone. If then checks
// have taken out every endpoint that could take the Call, those of them get it whose
// traffic does not fail, unless the operator wants it refused; and if every one is
// down, one of those gets it all the same. Draining endpoints, those that are not
// ready, Caddy's own checks and limits are never given up: where a limit alone
// stands in the way the verdict is [Full]. Where an endpoint has only said that it has too much to do
// it is [Overloaded], for the Call to wait; the policy alone, which cannot wait,
// gives the Call to such an endpoint before it takes one that is down.
//
// An endpoint is down when it cannot be reached or its circuit is open. One whose
// time for a trial has come gets one Call: see trial.go. One that has come, or come
// back, to a pool at work gets less than the others for a while: see ration.go.
//
// Score and pick are the strategy's: see cost.go, work.go, prefix_spill.go,
// weighted.go and cold.go. Where a policy of Caddy's own chooses, it is offered
// what passed the filter (delegate.go).
//
// # What survives a reload
//
// The prefix index is attached to the pool and lives as long. A Policy belongs
// to one configuration and owns nothing that a Call needs after Cleanup: Calls
// keep the Settings and the pool they began with.
package selection
