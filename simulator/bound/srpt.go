package bound

import (
	"container/heap"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// SRPT is a lower bound of the mean time to first token that comes from load: what
// one machine as fast as all replicas together would reach if it always worked on
// the prompt with the least left, could interrupt it at no cost, and paid neither
// for steps nor for decoding. No schedule of that machine has a lower mean, and
// none of several machines does what it could not.
//
// What prompts share is paid by the first that has it. Of a trace whose requests
// follow others the bound is 0: the slower the pool, the later they come.
func SRPT(t *trace.Trace, c engine.Config, replicas int) time.Duration {
	if len(t.Requests) == 0 || closed(t) {
		return 0
	}
	// Time is counted in nanoseconds of one replica's work, of which the machine
	// does as many in a nanosecond as there are replicas.
	speed := int64(replicas)
	var left shortest
	var now, sum int64
	finish := func() {
		j := heap.Pop(&left).(job)
		now += j.left
		sum += (now - j.arrived) / speed
	}
	for i, w := range work(t, c) {
		at := int64(t.Requests[i].At) * speed
		for len(left) > 0 && now+left[0].left <= at {
			finish()
		}
		if len(left) > 0 {
			left[0].left -= at - now // still the shortest
		}
		now = at
		heap.Push(&left, job{left: w.prefill / femtoPerNano, arrived: at})
	}
	for len(left) > 0 {
		finish()
	}
	return time.Duration(sum / int64(len(t.Requests)))
}

// LowerMeanTTFT is the best lower bound of the mean time to first token: that of
// requests alone or that of load, whichever is higher.
func LowerMeanTTFT(t *trace.Trace, c engine.Config, replicas int) time.Duration {
	if len(t.Requests) == 0 {
		return 0
	}
	var sum time.Duration
	for _, s := range Solo(t, c) {
		sum += s.TTFT
	}
	return max(sum/time.Duration(len(t.Requests)), SRPT(t, c, replicas))
}

// job is a prompt of which something is left to compute.
type job struct {
	left    int64
	arrived int64
}

// shortest is a heap of jobs with the one on top of which the least is left.
type shortest []job

func (h shortest) Len() int           { return len(h) }
func (h shortest) Less(i, j int) bool { return h[i].left < h[j].left }
func (h shortest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *shortest) Push(x any)        { *h = append(*h, x.(job)) }

func (h *shortest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
