package bound

import (
	"math"
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// effort is the least work that a request is for the engines.
type effort struct{ prefill, decode femto }

// work tells it of every request, with what prompts share charged to the first. It
// follows the straight lines below the cost formula: a prefill pays for its tokens
// and pairs alone, a decoding step for its token, its context and its share of the
// step, which no more than MaxSeqs can share.
func work(t *trace.Trace, c engine.Config) []effort {
	p := newPrices(c.Costs)
	token := p.token + p.sequence + (p.base+p.weights)/femto(c.MaxSeqs)
	efforts := make([]effort, len(t.Requests))
	for i, found := range prefixes(newLayout(t)) {
		r := &t.Requests[i]
		found = inBlocks(found, r.Input, c.BlockSize)
		efforts[i] = effort{
			prefill: p.token*femto(r.Input-found) + p.pairs(r.Input, found),
			decode:  token*femto(r.Output-1) + p.contexts(r.Input, r.Output),
		}
	}
	return efforts
}

// LoadFactor is the least share of their time that the replicas must work to keep
// up with the trace, from its first to its last arrival, without the requests that
// every one of them refuses. Above 1 a backlog grows whatever the router does. Batches
// that memory keeps from being full, and caches that forget, make the true load higher.
//
// Of a trace whose requests follow others it is 0: they wait for a slow pool, and
// so it always keeps up. A trace without duration has none either.
func LoadFactor(t *trace.Trace, c engine.Config, replicas int) float64 {
	if closed(t) || duration(t) <= 0 {
		return 0
	}
	sum := 0.0
	for i, w := range work(t, c) {
		if r := &t.Requests[i]; c.Fits(r.Input, r.Output) {
			sum += float64(w.prefill + w.decode)
		}
	}
	return sum / (float64(replicas) * femtoPerNano * float64(duration(t)))
}

// MaxRate is how many times faster than in the trace requests could arrive without
// a backlog that grows, at the most; +Inf where nothing bounds it. A trace that
// ends before its backlog hurts, or a share of requests given up, allows more.
func MaxRate(t *trace.Trace, c engine.Config, replicas int) float64 {
	rho := LoadFactor(t, c, replicas)
	if rho <= 0 {
		return math.Inf(1)
	}
	return 1 / rho
}

// Goodput is the highest share of requests that can have their first token within
// ttft and, on average, each further one within tpot. Alone on an engine each of
// them must, and all their work together must be done before the last may end: if
// that is too much, those count that are least work.
func Goodput(t *trace.Trace, c engine.Config, replicas int, ttft, tpot time.Duration) float64 {
	if len(t.Requests) == 0 {
		return 0
	}
	efforts := work(t, c)
	var able []femto
	var longest time.Duration
	for i, s := range Solo(t, c) {
		if output := t.Requests[i].Output; s.TTFT <= ttft && s.TPOT(output) <= tpot {
			able = append(able, efforts[i].prefill+efforts[i].decode)
			longest = max(longest, ttft+tpot*time.Duration(output-1))
		}
	}
	good := len(able)
	if !closed(t) {
		slices.Sort(able)
		room := float64(replicas) * femtoPerNano * float64(duration(t)+longest)
		good = 0
		for _, w := range able {
			if room -= float64(w); room < 0 {
				break
			}
			good++
		}
	}
	return float64(good) / float64(len(t.Requests))
}

// duration is from the first arrival to the last.
func duration(t *trace.Trace) time.Duration {
	if len(t.Requests) == 0 {
		return 0
	}
	return t.Requests[len(t.Requests)-1].At - t.Requests[0].At
}
