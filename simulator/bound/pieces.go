package bound

import "github.com/caddy-llmlb/caddy-llmlb/simulator/trace"

// layout is a trace's pieces with ids that count from 0, so that what is known of
// a piece is found in a slice rather than in a map.
type layout struct {
	trace *trace.Trace
	ids   []int32 // of all requests, one after the other
	start []int   // where each request's begin; one more for the end
	kinds int     // how many different ids there are
}

func newLayout(t *trace.Trace) *layout {
	l := &layout{trace: t, start: make([]int, 1, len(t.Requests)+1)}
	numbers := make(map[uint64]int32)
	for i := range t.Requests {
		if t.Block > 0 {
			for _, id := range t.Requests[i].Blocks {
				n, ok := numbers[id]
				if !ok {
					n = int32(len(numbers))
					numbers[id] = n
				}
				l.ids = append(l.ids, n)
			}
		}
		l.start = append(l.start, len(l.ids))
	}
	l.kinds = len(numbers)
	return l
}

// pieces are the ids of a request.
func (l *layout) pieces(request int) []int32 {
	return l.ids[l.start[request]:l.start[request+1]]
}

// asked is how many tokens of its k-th piece a request can find: those of the
// prompt except its last token, which is always computed. It is 0 for pieces of
// the answer.
func (l *layout) asked(request, k int) int {
	return l.within(k, l.trace.Requests[request].Input-1)
}

// left is how many tokens of its k-th piece a request may leave in a cache. Its
// ids may go on into the answer, and where the prompt ends within its last piece
// nothing says whether the answer's beginning belongs to that. Bounds take it that
// it does.
func (l *layout) left(request, k int) int {
	r := &l.trace.Requests[request]
	return l.within(k, r.Input+r.Output)
}

// occupied is how many tokens of its k-th piece a request leaves in a cache,
// without that doubt: the answer counts only if some id is of nothing else.
func (l *layout) occupied(request, k int) int {
	r := &l.trace.Requests[request]
	if (len(r.Blocks)-1)*l.trace.Block >= r.Input {
		return l.left(request, k)
	}
	return l.within(k, r.Input)
}

func (l *layout) within(k, tokens int) int {
	return min(max(tokens-k*l.trace.Block, 0), l.trace.Block)
}

// closed says whether some requests wait for the ends of others.
func closed(t *trace.Trace) bool {
	for i := range t.Requests {
		if t.Requests[i].Follows > 0 {
			return true
		}
	}
	return false
}

func promptTokens(t *trace.Trace) int {
	sum := 0
	for i := range t.Requests {
		sum += t.Requests[i].Input
	}
	return sum
}

// share is a part of the prompt tokens of a trace; of a trace without any it is 0.
func share(t *trace.Trace, tokens int) float64 {
	all := promptTokens(t)
	if all == 0 {
		return 0
	}
	return float64(tokens) / float64(all)
}
