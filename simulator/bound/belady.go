package bound

import (
	"container/heap"
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Belady is the highest hit ratio of caches that hold so many tokens together and
// serve the requests in the order of the trace, whatever they keep and however
// requests are spread over them. It knows the future: it keeps what is used again
// soonest, token by token, does not store what is not, and does not need the
// beginning of a prefix for its end to count (Belady's MIN, with bypass).
//
// Engines that serve in order of arrival cannot beat it. A queue that reorders
// requests so as to reuse prefixes sooner might, by a little.
func Belady(t *trace.Trace, tokens int) float64 {
	l := newLayout(t)
	next, used := uses(l)
	// What is kept for the same request is all alike, so a number is enough.
	kept := make([]int, len(t.Requests))
	var furthest latest
	seen := make([]int, l.kinds)
	sum, total := 0, 0
	for i := range t.Requests {
		sum += kept[i]
		total -= kept[i]
		kept[i] = 0
		for k, id := range l.pieces(i) {
			at := l.start[i] + k
			seen[id] = max(seen[id], l.left(i, k))
			n := min(seen[id], used[at])
			if n == 0 {
				continue
			}
			if kept[next[at]] == 0 {
				heap.Push(&furthest, next[at])
			}
			kept[next[at]] += n
			total += n
		}
		for total > max(tokens, 0) {
			n := min(total-tokens, kept[furthest[0]])
			kept[furthest[0]] -= n
			total -= n
			if kept[furthest[0]] == 0 {
				heap.Pop(&furthest)
			}
		}
	}
	return share(t, sum)
}

// uses tells of each place in the layout which request has that piece next, and for
// how many of its tokens it asks: 0 if there is none, or if the piece is in its
// answer. Then the cache gets it anew without having kept it.
func uses(l *layout) (next, tokens []int) {
	next = make([]int, len(l.ids))
	tokens = make([]int, len(l.ids))
	soonest := make([]int, l.kinds)
	asked := make([]int, l.kinds)
	for i := range slices.Backward(l.trace.Requests) {
		for k, id := range l.pieces(i) {
			at := l.start[i] + k
			next[at], tokens[at] = soonest[id], asked[id]
		}
		for k, id := range l.pieces(i) {
			soonest[id], asked[id] = i, l.asked(i, k)
		}
	}
	return next, tokens
}

// latest is a heap of requests with the last one on top.
type latest []int

func (h latest) Len() int           { return len(h) }
func (h latest) Less(i, j int) bool { return h[i] > h[j] }
func (h latest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *latest) Push(x any)        { *h = append(*h, x.(int)) }

func (h *latest) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}
