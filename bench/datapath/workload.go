package main

import (
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// workload is what is asked for, of how many endpoints.
type workload struct {
	name      string
	does      string // in words
	size      int    // of a request's body, in bytes
	tokens    int    // of an answer
	stream    bool
	endpoints int
	clients   int  // of the closed loop
	alone     bool // only ours and plain Caddy
	streams   int  // this many at once, slow ones; 0: no such workload
	pairs     int  // at most; 0: as many as are asked for
	simulated bool // the servers are llm_simulator's
	aims      map[measure]aim
}

// aim is what a figure should not be above, or below where the measure says so.
type aim float64

const kib = 1 << 10

// pauseBetween is how far apart the events of slow streams are.
const pauseBetween = time.Second

var workloads = []workload{
	{
		name: "chat", does: "1 KB, an answer of 20 tokens in one piece",
		size: kib, tokens: 20, endpoints: 2, clients: 32,
		aims: map[measure]aim{cpuRatio: 1.15, rateRatio: 0.88, addedP50: 0.1, addedP99: 0.5},
	},
	{
		name: "stream", does: "1 KB, an answer of 200 events as fast as it is taken",
		size: kib, tokens: 200, stream: true, endpoints: 2, clients: 32,
		aims: map[measure]aim{cpuRatio: 1.10, rateRatio: 0.92},
	},
	{
		name: "32k", does: "32 KB, half cold, half sharing three quarters; an answer of 20 tokens in one piece",
		size: 32 * kib, tokens: 20, endpoints: 2, clients: 32,
		aims: map[measure]aim{cpuRatio: 1.20, rateRatio: 0.85},
	},
	{
		name: "400k", does: "400 KB, likewise",
		size: 400 * kib, tokens: 20, endpoints: 2, clients: 16,
		aims: map[measure]aim{cpuRatio: 1.35, rateRatio: 0.75, addedP99: 5},
	},
	{name: "endpoints-64", does: "as chat, 64 endpoints", size: kib, tokens: 20, endpoints: 64, clients: 32, alone: true, pairs: 8},
	{name: "endpoints-1000", does: "as chat, 1,000 endpoints", size: kib, tokens: 20, endpoints: 1000, clients: 32, alone: true, pairs: 8},
	{
		name: "simulated", does: "64 streams of 64 tokens each, from two llm_simulator at real speed",
		size: kib, tokens: 64, stream: true, endpoints: 2, clients: 64, simulated: true, pairs: 8,
	},
	{
		name: "streams-2000", does: "2,000 streams at once, an event a second each",
		size: kib, tokens: 20, stream: true, endpoints: 2, streams: 2000, pairs: 3,
	},
	{
		name: "streams-8000", does: "8,000 streams at once, an event a second each",
		size: kib, tokens: 60, stream: true, endpoints: 2, streams: 8000,
		aims: map[measure]aim{addedRSS: 16},
	},
}

// pick returns the workloads with the given names, separated by commas; of no
// names, all.
func pick(names string) ([]workload, error) {
	if names == "" {
		return workloads, nil
	}
	var list []workload
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(workloads, func(w workload) bool { return w.name == name })
		if i < 0 {
			return nil, command.Wrong("no workload is called %q; there are %s", name, workloadNames())
		}
		list = append(list, workloads[i])
	}
	return list, nil
}

func workloadNames() string {
	names := make([]string, 0, len(workloads))
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return strings.Join(names, ",")
}

// answerSizes are those that the engine must have ready.
func answerSizes() []int {
	sizes := make([]int, 0, len(workloads)+1)
	sizes = append(sizes, 1)
	for _, w := range workloads {
		sizes = append(sizes, w.tokens)
	}
	return sizes
}
