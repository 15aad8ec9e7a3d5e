// Package simulator puts the engine model of package engine behind HTTP, as a
// Caddy handler that looks and behaves like a vLLM server in real time. The
// quickstart, examples and tests talk to it where there is no accelerator.
//
// A server can be made to fail in the ways that real ones do, for some requests
// or all, by the configuration, by a request's header or live through the admin
// API: docs/rehearsing.md.
//
// It owns the simulated servers, their clocks and their faults. cmd/caddy links
// it; a production build does not. A simulated server survives a configuration
// reload, with its KV memory, counters, open streams and the faults that were
// set live, as long as a handler with the same options or a request still refers
// to it. The configuration's own faults are a handler's and no such option.
//
// An idle server has no goroutine. The first sequence starts the one that
// drives the engine, and it ends when the engine has nothing left to do, so
// that provisioning starts nothing and a replaced configuration leaves nothing
// behind once its last stream is over.
package simulator
