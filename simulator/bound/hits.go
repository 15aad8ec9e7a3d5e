package bound

import "github.com/caddy-llmlb/caddy-llmlb/simulator/trace"

// Hits is the highest hit ratio that any memory allows: the share of all prompt
// tokens that began some earlier request's prompt, or what the trace knows of its
// answer, in the same way. At least the last token of a prompt is always computed,
// so a request never counts all of its own.
//
// The order in which requests are served does not change the ratio, only who is
// the first to compute what they share.
func Hits(t *trace.Trace) float64 {
	sum := 0
	for _, h := range prefixes(newLayout(t)) {
		sum += h
	}
	return share(t, sum)
}

// prefixes are the tokens at the beginning of each request's prompt that occurred
// in earlier requests, in the order of the trace.
func prefixes(l *layout) []int { return walk(l, make([]int, l.kinds)) }

// walk goes through the requests in order; seen is what is there at the beginning.
func walk(l *layout, seen []int) []int {
	hits := make([]int, len(l.trace.Requests))
	for i := range hits {
		hits[i] = l.leading(i, seen)
		for k, id := range l.pieces(i) {
			seen[id] = max(seen[id], l.left(i, k))
		}
	}
	return hits
}

// leading is how long the beginning of a request's prompt is that is there, given
// how many tokens of each piece are.
func (l *layout) leading(request int, there []int) int {
	hit := 0
	for k, id := range l.pieces(request) {
		n := l.asked(request, k)
		hit += min(n, there[id])
		if there[id] < n {
			break
		}
	}
	return hit
}

// anyOrder is like prefixes where requests follow others, so that nobody knows
// beforehand in which order they come: whatever two conversations have in common
// may be there for either.
func anyOrder(l *layout) []int {
	const nobody = -1
	conversations := lines(l.trace)
	owner := make([]int, l.kinds)
	for i := range owner {
		owner[i] = nobody
	}
	common := make([]bool, l.kinds)
	longest := make([]int, l.kinds)
	for i, c := range conversations {
		for k, id := range l.pieces(i) {
			common[id] = common[id] || owner[id] != nobody && owner[id] != c
			owner[id] = c
			longest[id] = max(longest[id], l.left(i, k))
		}
	}
	// From here on as for a known order, with what is common there from the start.
	seen := make([]int, l.kinds)
	for id, n := range longest {
		if common[id] {
			seen[id] = n
		}
	}
	return walk(l, seen)
}

// lines tells which conversation each request belongs to. Where two requests
// follow the same one, the second begins a conversation of its own.
func lines(t *trace.Trace) []int {
	line := make([]int, len(t.Requests))
	followed := make([]bool, len(t.Requests))
	for i := range t.Requests {
		line[i] = i
		if f := t.Requests[i].Follows; f > 0 && !followed[i-f] {
			followed[i-f] = true
			line[i] = line[i-f]
		}
	}
	return line
}
