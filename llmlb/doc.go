// Package llmlb holds the words and the state of the load balancer: Pool,
// Endpoint, Ledger, Lease, Signals, Call, Outcome. Everything else in this
// module depends on it, and it depends on the standard library and Caddy's
// UsagePool only.
//
// The package is passive. It starts no goroutine, opens no connection and reads
// no clock: whoever calls it says what time it is. That is what lets the same
// code run in production, in tests with a fake clock, and in the simulator's
// virtual time.
//
// # Who calls it
//
// The request path (packages admission, selection, transport) takes Leases and
// ends them. The background path (package health) writes Signals. The two never
// call each other: they meet in the Endpoint.
//
// # Locking
//
// One mutex per Pool guards everything in it that changes: ledgers, states,
// leases. A choice (filter, score, pick, reserve) runs under that lock, so no
// two Calls ever see the same free place. Methods whose comment says "under the
// pool's lock" expect the caller to hold it; all others take it themselves.
//
// # What survives a reload
//
// Pools live in a caddy.UsagePool. They hold the endpoints, their ledgers and
// whatever other packages attach (the prefix index, the queue). Every live
// configuration holds a reference to the pools it names, and so does a pool
// with open Leases; an Endpoint that left the configuration lives until its
// last Lease ends. Settings are one immutable value per configuration and
// pool: a Call keeps the Settings it began with.
package llmlb
