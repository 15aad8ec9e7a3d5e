package llmlb

import (
	"maps"
	"time"
)

// SLO is what a request has to keep to count as served well. Both times are what
// a client sees, so that waiting in the queue and attempts that failed are in them.
type SLO struct {
	// TTFT is the longest time from a request's arrival to its first token. 0 is
	// not judged.
	TTFT time.Duration

	// TPOT is the longest mean time between the tokens behind the first. 0 is not
	// judged.
	TPOT time.Duration
}

// On reports whether there is anything to keep.
func (o SLO) On() bool { return o.TTFT > 0 || o.TPOT > 0 }

// SLOResult is whether a request has kept the SLO, or what it broke first.
type SLOResult uint8

// The results. Their sum is the requests offered.
const (
	SLOMet     SLOResult = iota
	SLOTTFT              // the first token came too late
	SLOTPOT              // the tokens behind it came too slowly
	SLOTime              // an answer that comes whole took too long
	SLOFailed            // there was no whole answer
	SLORefused           // the gateway has turned it away
	sloResults
)

var sloResultNames = [sloResults]string{"met", "ttft", "tpot", "time", "failed", "refused"}

// String returns the name used as a metric label.
func (r SLOResult) String() string {
	if r >= sloResults {
		return "unknown"
	}
	return sloResultNames[r]
}

// judge tells whether the Call has kept the SLO, with an answer of so many tokens
// that ended now. counts is false where that cannot be said: where the client has
// left while it still held.
func (o SLO) judge(c *Call, output int, now time.Time) (r SLOResult, counts bool) {
	gone := c.Outcome == ClientGone
	switch {
	case c.Outcome == Refused:
		return SLORefused, true
	case c.Outcome != Served && !gone:
		return SLOFailed, true
	case c.FirstToken.IsZero():
		r, counts = o.whole(c, output, now)
	default:
		r, counts = o.stream(c, output), true
	}
	return r, counts && !(gone && r == SLOMet)
}

func (o SLO) stream(c *Call, output int) SLOResult {
	if o.TTFT > 0 && c.FirstToken.Sub(c.Arrival) > o.TTFT {
		return SLOTTFT
	}
	gaps := max(output, c.TokenEvents) - 1
	if o.TPOT > 0 && gaps > 0 && c.LastToken.Sub(c.FirstToken) > time.Duration(gaps)*o.TPOT {
		return SLOTPOT
	}
	return SLOMet
}

// whole judges what shows no first token by all the time it has taken. Of a stream
// whose client left before that token only the first limit can be said.
func (o SLO) whole(c *Call, output int, now time.Time) (r SLOResult, counts bool) {
	took := now.Sub(c.Arrival)
	if c.Outcome == ClientGone && c.Stream {
		if o.TTFT > 0 && took > o.TTFT {
			return SLOTTFT, true
		}
		return SLOMet, true
	}
	if o.TTFT <= 0 || o.TPOT <= 0 && !c.Encodes {
		return 0, false
	}
	if took > o.TTFT+time.Duration(output)*o.TPOT {
		return SLOTime, true
	}
	return SLOMet, true
}

type sloKind struct {
	class  string
	result SLOResult
}

// CountSLO counts a request that has ended by the SLO of the settings it began
// under. Leave out those that were at fault themselves. output is the tokens of
// its answer, estimated where the engine told none.
func (p *Pool) CountSLO(now time.Time, c *Call, output int) {
	if c.Settings == nil || !c.Settings.SLO.On() {
		return
	}
	r, counts := c.Settings.SLO.judge(c, output, now)
	if !counts {
		return
	}
	t := &p.tally
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.slo == nil {
		t.slo = make(map[sloKind]uint64)
	}
	if k := (sloKind{c.Class, r}); len(t.slo) < maxTallies || t.slo[k] > 0 {
		t.slo[k]++
	}
}

// SLOResults calls f with how many requests of each class had which result. All
// results of a class that has had any are told, those with 0 too.
func (p *Pool) SLOResults(f func(class string, r SLOResult, n uint64)) {
	p.tally.mu.Lock()
	counted := maps.Clone(p.tally.slo)
	p.tally.mu.Unlock()
	classes := make(map[string]bool)
	for k := range counted {
		classes[k.class] = true
	}
	for class := range classes {
		for r := range sloResults {
			f(class, r, counted[sloKind{class, r}])
		}
	}
}
