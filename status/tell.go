package status

import (
	"encoding/json"
	"strconv"
	"time"
)

// told is what a stream has been told.
type told struct {
	seq  uint64 // of live
	step int64  // of the history
}

// viewer is who looks: what may be shown to it.
type viewer struct {
	shows     func(pool string) bool
	addresses bool
}

// tell writes the events that bring a page from what it was told to now, and
// nothing if nothing has changed.
func (w *watch) tell(b []byte, v viewer, was told) ([]byte, told) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b = w.tellPast(b, v, was)
	is := told{seq: w.live.seq, step: w.past.last}
	if was.seq == is.seq {
		return b, is
	}
	l := &w.live
	data := append([]byte(nil), `{"now":`...)
	data = strconv.AppendInt(data, l.at.UnixMilli(), 10)
	data = append(data, `,"pools":[`...)
	empty := len(data)
	for _, p := range l.pools {
		if v.shows(p.name) {
			data = p.tell(data, v, was.seq, len(data) > empty)
		}
	}
	some := len(data) > empty
	data = append(data, ']')
	if l.names > was.seq || was.seq == 0 {
		some = true
		names := []string{}
		for _, p := range l.pools {
			if v.shows(p.name) {
				names = append(names, p.name)
			}
		}
		data = append(append(data, `,"names":`...), asJSON(names)...)
	}
	if !some {
		return b, is
	}
	return event(b, "pools", append(data, '}')), is
}

// tell writes what of the pool has changed since, behind a comma where another
// pool stands before it, and nothing if nothing has.
func (p *livePool) tell(b []byte, v viewer, since uint64, comma bool) []byte {
	begin := len(b)
	if comma {
		b = append(b, ',')
	}
	b = append(append(b, `{"pool":`...), asJSON(p.name)...)
	empty := len(b)
	if p.seq > since {
		b = append(append(b, `,"head":`...), p.shown...)
	}
	if p.order > since {
		names := make([]string, len(p.rows))
		for i, r := range p.rows {
			names[i] = r.Name
		}
		b = append(append(b, `,"names":`...), asJSON(names)...)
	}
	first := true
	for _, r := range p.rows {
		if r.seq <= since {
			continue
		}
		if first {
			b = append(b, `,"rows":[`...)
		} else {
			b = append(b, ',')
		}
		first = false
		b = r.append(b, v.addresses)
	}
	if !first {
		b = append(b, ']')
	}
	if len(b) == empty {
		return b[:begin]
	}
	return append(b, '}')
}

// tellPast writes the history to who has not got it, and the steps since to who
// has.
func (w *watch) tellPast(b []byte, v viewer, was told) []byte {
	h := &w.past
	if was.step == h.last {
		return b
	}
	whole := was.step == 0 || h.last-was.step >= steps
	data := append([]byte(nil), `{"at":`...)
	data = strconv.AppendInt(data, h.last*step.Milliseconds(), 10)
	data = append(data, `,"pools":{`...)
	comma := false
	for _, p := range w.live.pools {
		past := h.pools[p.name]
		if past == nil || !v.shows(p.name) {
			continue
		}
		if comma {
			data = append(data, ',')
		}
		comma = true
		data = append(append(data, asJSON(p.name)...), ':')
		if whole {
			data = appendAll(data, past.ring[:], h.last)
			continue
		}
		data = append(data, '{')
		for k := range past.ring {
			if k > 0 {
				data = append(data, ',')
			}
			data = append(append(strconv.AppendQuote(data, seriesNames[k]), ':'), '[')
			for n := was.step + 1; n <= h.last; n++ {
				if n > was.step+1 {
					data = append(data, ',')
				}
				data = appendPoint(data, past.ring[k][n%steps])
			}
			data = append(data, ']')
		}
		data = append(data, '}')
	}
	data = append(data, "}}"...)
	if whole {
		return event(b, "history", data)
	}
	return event(b, "steps", data)
}

// event writes one server-sent event. JSON has no line breaks in it.
func event(b []byte, name string, data []byte) []byte {
	b = append(append(b, "event: "...), name...)
	b = append(append(b, "\ndata: "...), data...)
	return append(b, "\n\n"...)
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return b
}

// millis is a duration as the page reckons.
func millis(d time.Duration) int64 { return d.Milliseconds() }
