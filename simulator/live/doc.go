// Package live holds what the pool in virtual time is held against: the real thing.
// Its tests send a slice of a workload through a real Caddy with a real llm_proxy
// to real-time llm_simulators over HTTP, prompts as text and all, and replay the
// same slice in package virtual with the same settings. Both have to tell the same.
//
// Time is compressed in both alike: the servers' steps, the front of their API and
// the arrivals are so many times faster, and scrapes so much more frequent. What
// the gateway itself has as constants, such as how long a queue may be, is not, in
// either. What is left between them is what a real gateway, its kernel and its
// clients cost.
//
// They take minutes and measure time, so they run only with LLMLB_LIVE=1, which
// .ci/full live sets; what makes text of a trace is tested always. Other variables
// change the run: LLMLB_LIVE_COMPRESS is how many times faster time is,
// LLMLB_LIVE_SPAN how many seconds of a trace are replayed, LLMLB_LIVE_RATE (1) how
// many times faster its requests come, LLMLB_LIVE_ROUNDS (3) how often each strategy
// runs. Nothing here is called by anybody, and nothing outlives a test.
package live
