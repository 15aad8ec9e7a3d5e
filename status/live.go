package status

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxNumbers is how many rows of a pool are sent in a second because of their
// numbers alone. With more that differ each has its turn after the others; what
// concerns a state is always sent at once.
const maxNumbers = 250

// live is what open pages are told, with a mark on each part that says when it
// changed last: a stream is told what is marked later than what it was told last.
type live struct {
	at    time.Time
	seq   uint64
	pools []*livePool
	names uint64 // when the list of pools changed
}

type livePool struct {
	name  string
	head  head
	shown []byte // head as JSON
	seq   uint64 // when head changed
	rows  []*liveRow
	order uint64 // when the list of rows changed
}

type liveRow struct {
	row
	address string
	seq     uint64
	text    []byte // row as JSON: made once for all who are told
}

// becomes changes what is told of the row.
func (r *liveRow) becomes(now row, seq uint64) {
	r.row, r.seq = now, seq
	r.text, _ = json.Marshal(&now) // there is nothing in it that could fail
}

// append writes the row, with its address if that is to be shown.
func (r *liveRow) append(b []byte, address bool) []byte {
	if !address {
		return append(b, r.text...)
	}
	b = append(append(b, `{"address":`...), asJSON(r.address)...)
	return append(append(b, ','), r.text[1:]...)
}

// head is what is told of a pool beside its rows.
type head struct {
	Pool     string            `json:"pool"`
	Strategy string            `json:"strategy,omitempty"`
	AllDown  bool              `json:"all_down,omitempty"`
	Queue    queueHead         `json:"queue"`
	Refusals map[string]uint64 `json:"refusals,omitempty"` // since Caddy's start
	Decided  map[string]uint64 `json:"decided,omitempty"`  // within the history, by reason
	Refused  uint64            `json:"refused"`            // likewise
}

type queueHead struct {
	Calls      int         `json:"calls"`
	Tokens     int         `json:"tokens"`
	Saturation number      `json:"saturation"`
	Classes    []classHead `json:"classes,omitempty"`
}

type classHead struct {
	Name   string `json:"name"`
	Calls  int    `json:"calls"`
	Oldest number `json:"oldest"` // milliseconds
}

func queueOf(q *llmlb.QueueStatus) queueHead {
	h := queueHead{Calls: q.Calls, Tokens: q.Tokens, Saturation: hundredths(q.Saturation)}
	for _, c := range q.Classes {
		h.Classes = append(h.Classes, classHead{Name: c.Name, Calls: c.Calls, Oldest: rounded(c.OldestMillis)})
	}
	return h
}

// take takes in what was seen, and marks what differs.
func (l *live) take(now time.Time, seen []sight, past *history) {
	l.seq++
	l.at = now
	pools := make([]*livePool, 0, len(seen))
	for i := range seen {
		s := &seen[i]
		p := l.pool(s.Pool)
		if p == nil {
			p = &livePool{name: s.Pool}
			l.names = l.seq
		}
		p.take(l.seq, s, past.pools[s.Pool])
		pools = append(pools, p)
	}
	if len(pools) != len(l.pools) {
		l.names = l.seq
	}
	l.pools = pools
}

func (l *live) pool(name string) *livePool {
	i := slices.IndexFunc(l.pools, func(p *livePool) bool { return p.name == name })
	if i < 0 {
		return nil
	}
	return l.pools[i]
}

// forget lets go of everything but the count, by which the streams to come see
// that all of it is new.
func (l *live) forget() { *l = live{seq: l.seq} }

func (p *livePool) take(seq uint64, s *sight, past *poolHistory) {
	h := head{Pool: s.Pool, Strategy: s.Strategy, AllDown: s.AllDown, Queue: queueOf(&s.Queue), Refusals: s.Refusals}
	if past != nil {
		h.Decided, h.Refused = past.recent()
	}
	if shown, err := json.Marshal(&h); err == nil && string(shown) != string(p.shown) {
		p.head, p.shown, p.seq = h, shown, seq
	}
	before := make(map[string]*liveRow, len(p.rows))
	for _, r := range p.rows {
		before[r.Name] = r
	}
	rows := make([]*liveRow, 0, len(s.Endpoints))
	var later []update
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		now := rowOf(i, e)
		r := before[e.Name]
		switch {
		case r == nil || r.address != e.Address:
			r = &liveRow{address: e.Address}
			r.becomes(now, seq)
			p.order = seq
		case r.rowState != now.rowState:
			r.becomes(now, seq)
		case r.row != now:
			later = append(later, update{r, now})
		}
		rows = append(rows, r)
	}
	if len(rows) != len(p.rows) {
		p.order = seq
	}
	p.rows = rows
	turns := uint64(len(later)/maxNumbers + 1)
	for i, u := range later {
		if uint64(i)%turns == seq%turns {
			u.to.becomes(u.row, seq)
		}
	}
}

// update is a row whose numbers differ from those told.
type update struct {
	to  *liveRow
	row row
}
