// Command datapath measures what the gateway costs between a client and an
// inference server, beside plain Caddy, HAProxy and nginx:
//
//	go run ./bench/datapath
//
// # How it measures
//
// It builds the gateway, starts a fast fake engine as a process of its own, puts
// each system in front of it as further processes, and is itself the client. All of
// it is plain HTTP on loopback, on the machine's own cores, which nothing reserves
// for anybody.
//
// A workload is measured in rounds. In a round each system carries the same load
// for one short slice, one after the other, and the next round has them in reverse
// (A B C, C B A, …), so that what the machine does meanwhile falls on all alike. A
// round gives one pair for each system and what it is compared with: plain Caddy,
// or no gateway at all. A figure is the median over the pairs, with an interval
// that holds it with 95 %, by a seeded bootstrap.
//
// Two loads are put on each workload: a closed loop of connections that never
// pause, which tells throughput at saturation and processor time per request; and
// an open loop at a fixed rate, a part of what plain Caddy saturates at, which tells
// latency. Processor time is what the kernel's clock of each process says, in
// nanoseconds, workers included.
//
// Every answer is compared with what the engine sent, byte for byte. One that is
// wrong, short or late ends the run.
//
// # Who calls it
//
// People. Its figures are in docs/benchmarks.md. Nothing depends on it.
package main
