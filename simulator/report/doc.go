// Package report makes numbers of what became of a trace's requests: percentiles
// of latency, the hit ratio and goodput of each strategy, as JSON, as a table and
// as a page with plots.
//
// It is pure: records go in, and what comes out depends on nothing else, byte for
// byte. Times are whole nanoseconds until they are written, and quantiles are
// nearest-rank: values that occurred, none in between. The command llmlb-sim calls
// it; nothing in it outlives a call.
package report
