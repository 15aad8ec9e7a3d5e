// Package engine models one LLM inference engine: continuous batching, chunked
// prefill, paged KV memory with a prefix cache, and the time each step takes.
//
// It owns no clock, goroutine, network or randomness. Whoever drives a Replica
// says what time it is and waits, or pretends to wait, for as long as a step
// takes: package simulator does so in real time behind HTTP, a discrete-event
// simulator does so in virtual time. Times are whole nanoseconds since an
// origin that the caller chooses, step costs are summed in integers and no
// decision follows the order of a map, so a run is the same byte for byte on
// every machine.
//
// Driving a Replica is a loop of two calls:
//
//	step, ok := r.Begin(now)        // what runs next, and for how long
//	now += step.Duration
//	events = r.End(events[:0])      // the tokens that step produced
//
// Replicas may share a Store, the prefix cache of an ideal pool. Match, Pending
// and Decoding tell what a perfectly informed router would know.
//
// Add and Abort may come at any time, also between Begin and End. A Replica is
// not safe for concurrent use. Nothing here knows of configuration reloads.
package engine
