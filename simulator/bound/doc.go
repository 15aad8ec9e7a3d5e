// Package bound says what no router can beat, and what a very good one might
// reach, from a workload and the engines alone.
//
// Bounds hold for every policy, also for one that knows the future: [Hits] and
// [Belady] on the share of prompt tokens found in a cache, [Solo], [SRPT] and
// [LowerMeanTTFT] on latency, [LoadFactor] and [MaxRate] on capacity, [Goodput] on
// the share of requests within limits. [PooledLRU] is none: it is what engines
// that evict as vLLM does could find if all their memory were one. Each function
// says under which conditions it holds.
//
// Times are those of the engines. What an HTTP front adds (engine.APIOverhead) is
// left out; who compares with times that have it adds it.
//
// Engine configurations must be ones that engine.New accepts. Requests that it
// would refuse, for being longer than its whole memory, are counted like others, but
// for the load: leave them out beforehand where that matters. To bound a trace at
// another speed, give the trace with its arrivals changed.
//
// In a trace whose requests follow others, when they arrive depends on the pool.
// The bounds on hits then are those of the trace's own order, Solo allows for any
// order, and there is no bound from load: see [LoadFactor] and [SRPT].
//
// The command and the report of the pool simulator call this package. It keeps
// nothing between calls.
package bound
