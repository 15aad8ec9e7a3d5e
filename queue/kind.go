package queue

import (
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// kind is Calls that the same endpoints can serve. It is forgotten when none
// waits.
type kind struct {
	name    string
	index   int                        // in Queue.kinds
	cold    *line                      // nil when nobody stands in it
	warm    int                        // how many lines for endpoints there are
	longest map[*class]*ordered[*part] // of those lines, by their work
}

func (q *Queue) kind(name string) *kind {
	k := q.byName[name]
	if k == nil {
		k = &kind{name: name, index: len(q.kinds), longest: make(map[*class]*ordered[*part])}
		q.byName[name] = k
		q.kinds = append(q.kinds, k)
	}
	return k
}

// coldLine returns the line of those of a kind who take what comes first.
func (q *Queue) coldLine(name string) *line {
	k := q.kind(name)
	if k.cold == nil {
		k.cold = &line{kind: k}
	}
	return k.cold
}

// warmLine returns the line of those of a kind who wait for the endpoint.
func (q *Queue) warmLine(name string, e *llmlb.Endpoint) *line {
	lines := q.warm[e]
	for _, l := range lines {
		if l.kind.name == name {
			return l
		}
	}
	k := q.kind(name)
	k.warm++
	l := &line{kind: k, endpoint: e}
	q.warm[e] = append(lines, l)
	return l
}

// tidy forgets a line in which nobody stands.
func (q *Queue) tidy(l *line) {
	if l.calls > 0 {
		return
	}
	k := l.kind
	if l.endpoint == nil {
		k.cold = nil
	} else {
		k.warm--
		left := slices.DeleteFunc(q.warm[l.endpoint], func(x *line) bool { return x == l })
		if q.warm[l.endpoint] = left; len(left) == 0 {
			delete(q.warm, l.endpoint)
		}
	}
	if k.cold == nil && k.warm == 0 {
		last := q.kinds[len(q.kinds)-1]
		q.kinds[k.index], last.index = last, k.index
		q.kinds[len(q.kinds)-1] = nil
		q.kinds = q.kinds[:len(q.kinds)-1]
		delete(q.byName, k.name)
	}
}

// longestOf returns a class's parts of the lines for endpoints.
func (k *kind) longestOf(c *class) *ordered[*part] {
	h := k.longest[c]
	if h == nil {
		h = &ordered[*part]{
			less:  func(p, r *part) bool { return p.work > r.work },
			place: func(p *part) *int { return &p.rank },
		}
		k.longest[c] = h
	}
	return h
}

// shorten takes out a part in which nobody stands.
func (k *kind) shorten(p *part) {
	h := k.longest[p.class]
	if h.remove(p); h.len() == 0 {
		delete(k.longest, p.class)
	}
}

// longestBut returns the class's part with the most work of the lines for other
// endpoints, nil when there is none.
func (k *kind) longestBut(e *llmlb.Endpoint, c *class) (most *part) {
	h := k.longest[c]
	if h == nil {
		return nil
	}
	for i := range min(3, h.len()) { // if the first is the endpoint's own, the next is right below
		p := h.items[i]
		if p.line.endpoint != e && (most == nil || p.work > most.work) {
			most = p
		}
	}
	return most
}
