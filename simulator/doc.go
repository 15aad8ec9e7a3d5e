// Package simulator puts the engine model of package engine behind HTTP, as a
// Caddy handler that looks and behaves like a vLLM server in real time. The
// quickstart, examples and tests talk to it where there is no accelerator.
//
// It owns the simulated servers and their clocks. cmd/caddy links it; a
// production build does not. A simulated server survives a configuration
// reload, with its KV memory, counters and open streams, as long as a handler
// with the same options or a request still refers to it.
//
// An idle server has no goroutine. The first sequence starts the one that
// drives the engine, and it ends when the engine has nothing left to do, so
// that provisioning starts nothing and a replaced configuration leaves nothing
// behind once its last stream is over.
package simulator
