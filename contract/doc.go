// Package contract holds tests only. Each pins one fact about Caddy that this
// module leans on and that Caddy's documentation does not promise: how the
// proxy loop treats a selection policy and a transport, what a config load
// starts and stops, what happens to a stream that breaks. Each test is named
// after its fact, so that an upgrade of Caddy that changes one says at once
// which of our assumptions no longer holds.
//
// The tests use nothing of this module: they load small configs into Caddy in
// this process, with modules of their own, on loopback ports and with the admin
// endpoint off. Caddy has one running config per process, so they do not run in
// parallel. Nobody imports this package and nothing in it survives a reload.
package contract
