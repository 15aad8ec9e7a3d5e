package trace

import (
	"math"
	"slices"
	"time"
)

// Stats describe a trace. They say nothing of servers.
type Stats struct {
	Requests int

	// Follow are those of them that follow others. When these come depends on the
	// servers: Span goes by the rest, and the rates are no more than a guide.
	Follow int

	// Span is from the first arrival to the last, of those that follow no others.
	Span time.Duration

	// Input and Output are the lengths in tokens of prompts and answers.
	Input, Output Lengths

	// Rate, InputRate and OutputRate are requests, prompt tokens and answer tokens
	// a second of Span, and 0 where that is none.
	Rate, InputRate, OutputRate float64

	// Seen is the share of prompt tokens that an earlier request began with, or
	// went on to in its answer: what an infinite cache would hit if requests were
	// served one after the other. The last token of a prompt is computed always.
	Seen float64
}

// Lengths are how some lengths are distributed. A quantile that falls between two
// of them is drawn in proportion.
type Lengths struct{ Mean, P50, P90, P99 float64 }

// Stats counts.
func (t *Trace) Stats() Stats {
	s := Stats{Requests: len(t.Requests)}
	if s.Requests == 0 {
		return s
	}
	input, output := make([]int, s.Requests), make([]int, s.Requests)
	seen := make(map[uint64]struct{})
	var prompts, answers, hits int
	var first, last time.Duration
	for i := range t.Requests {
		q := &t.Requests[i]
		input[i], output[i] = q.Input, q.Output
		prompts += q.Input
		answers += q.Output
		switch {
		case q.Follows > 0:
			s.Follow++
		case i == 0: // the first request follows none
			first, last = q.At, q.At
		default:
			last = max(last, q.At)
		}
		known := 0
		for ; known < len(q.Blocks); known++ {
			if _, ok := seen[q.Blocks[known]]; !ok {
				break
			}
		}
		hits += min(known*t.Block, q.Input-1)
		for _, id := range q.Blocks[known:] {
			seen[id] = struct{}{}
		}
	}
	s.Span = last - first
	s.Input, s.Output = lengths(input, prompts), lengths(output, answers)
	s.Seen = float64(hits) / float64(prompts)
	if sec := s.Span.Seconds(); sec > 0 {
		s.Rate, s.InputRate, s.OutputRate = float64(s.Requests)/sec, float64(prompts)/sec, float64(answers)/sec
	}
	return s
}

func lengths(all []int, sum int) Lengths {
	slices.Sort(all)
	at := func(part float64) float64 {
		i, over := math.Modf(part * float64(len(all)-1))
		low, high := all[int(i)], all[min(int(i)+1, len(all)-1)]
		return float64(low) + over*float64(high-low)
	}
	return Lengths{Mean: float64(sum) / float64(len(all)), P50: at(.50), P90: at(.90), P99: at(.99)}
}
