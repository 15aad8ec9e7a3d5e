package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxFaults bounds how many faults a server has.
	maxFaults = 32

	// maxMatch bounds the text that a fault looks for, in bytes.
	maxMatch = 1024
)

// Fault is one way in which a simulated server fails, and for which requests
// it does. Without a condition it does for all that generate.
//
// In JSON a fault without conditions may be a string: "cut_after 3".
type Fault struct {
	// Fault is what happens, with its arguments: "silence", "cut_after 3",
	// "status 503 retry_after 2". docs/rehearsing.md explains them all.
	Fault string `json:"fault"`

	// Rate is the share of the requests that it happens to, above 0 and up to
	// 1. They are spread evenly: with 0.25 it is every fourth. Default: 1.
	Rate float64 `json:"rate,omitempty"`

	// Every makes it happen to each n-th request. Not together with Rate.
	Every int `json:"every,omitempty"`

	// First ends it after that many requests. Default: it does not end.
	First int `json:"first,omitempty"`

	// Match makes it happen to requests only whose last message, or prompt,
	// contains this text. Others are not counted. Default: all.
	Match string `json:"match,omitempty"`

	// Everything makes it happen on all paths, metrics, models and health
	// included, as in a process that is frozen or dead. For refuse, reset,
	// silence and loading, and without conditions. Default: false.
	Everything bool `json:"everything,omitempty"`
}

// faultJSON tells what is absent from what is 0: a rate of 0 would otherwise be
// a fault that happens always.
type faultJSON struct {
	Fault      string   `json:"fault"`
	Rate       *float64 `json:"rate"`
	Every      *int     `json:"every"`
	First      *int     `json:"first"`
	Match      string   `json:"match"`
	Everything bool     `json:"everything"`
}

// UnmarshalJSON reads an object or a string, and refuses unknown fields.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*f = Fault{Fault: text}
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var j faultJSON
	if err := d.Decode(&j); err != nil {
		return fmt.Errorf("reading a fault: %w", err)
	}
	*f = Fault{Fault: j.Fault, Match: j.Match, Everything: j.Everything}
	for _, n := range []struct {
		name     string
		from, to *int
	}{{"every", j.Every, &f.Every}, {"first", j.First, &f.First}} {
		if n.from == nil {
			continue
		}
		if *n.to = *n.from; *n.to < 1 {
			return fmt.Errorf("fault %q: %s is %d; must be at least 1", j.Fault, n.name, *n.to)
		}
	}
	if j.Rate != nil {
		if f.Rate = *j.Rate; f.Rate == 0 {
			return fmt.Errorf("fault %q: rate is 0; must be above 0 and at most 1", j.Fault)
		}
	}
	return nil
}

// resolve checks a fault's text and conditions.
func (f Fault) resolve() (fault, error) {
	what, err := parseFault(f.Fault)
	if err != nil {
		return what, err
	}
	conditions := f.Rate != 0 || f.Every != 0 || f.First != 0 || f.Match != ""
	switch whole := what.kind == faultRefuse || what.kind == faultReset || what.kind == faultSilence; {
	case !(f.Rate >= 0 && f.Rate <= 1):
		err = fmt.Errorf("rate is %v; must be above 0 and at most 1", f.Rate)
	case f.Every < 0:
		err = fmt.Errorf("every is %d; must be at least 1", f.Every)
	case f.First < 0:
		err = fmt.Errorf("first is %d; must be at least 1", f.First)
	case f.Rate != 0 && f.Every != 0:
		err = errors.New("rate and every are two ways to say how often; give one")
	case len(f.Match) > maxMatch:
		err = fmt.Errorf("match has %d bytes; at most %d are allowed", len(f.Match), maxMatch)
	case what.kind == faultLoading && conditions:
		err = errors.New("a server that loads does so for all requests; it takes no rate, every, first or match")
	case f.Everything && !whole && what.kind != faultLoading:
		err = errors.New("everything is for refuse, reset, silence and loading")
	case f.Everything && conditions:
		err = errors.New("everything means all requests; it goes without rate, every, first and match")
	}
	if err != nil {
		return what, fmt.Errorf("fault %q: %w", f.Fault, err)
	}
	return what, nil
}

// rule is a fault in force, and what it has done.
type rule struct {
	Fault
	what  fault
	since time.Time // when it was set

	// asked counts the requests that came to it: those that no fault before it
	// took, and that it looks for.
	asked, hits atomic.Int64
}

// newRules checks faults and puts them in force, in their order.
func newRules(faults []Fault, now time.Time) ([]*rule, error) {
	if len(faults) > maxFaults {
		return nil, fmt.Errorf("%d faults are given; at most %d are allowed", len(faults), maxFaults)
	}
	rules := make([]*rule, 0, len(faults))
	for i, f := range faults {
		what, err := f.resolve()
		if err != nil {
			return nil, err
		}
		if slices.Contains(faults[:i], f) {
			return nil, fmt.Errorf("fault %q is given twice with the same conditions", f.Fault)
		}
		rules = append(rules, &rule{Fault: f, what: what, since: now})
	}
	return rules, nil
}

// takes says whether a request gets the fault. Text is what Match looks at.
func (r *rule) takes(now time.Time, text string) bool {
	if r.over(now) || r.Match != "" && !strings.Contains(text, r.Match) {
		return false
	}
	i := r.asked.Add(1)
	switch {
	case r.First > 0 && i > int64(r.First),
		r.Every > 0 && i%int64(r.Every) != 0,
		r.Rate > 0 && share(i, r.Rate) == share(i-1, r.Rate):
		return false
	}
	r.hits.Add(1)
	return true
}

// over says whether a loading server has loaded.
func (r *rule) over(now time.Time) bool {
	return r.what.kind == faultLoading && r.what.wait > 0 && now.Sub(r.since) >= r.what.wait
}

// share is how many of i requests a rate takes. The small addition makes up for
// products that binary fractions leave just below a whole number.
func share(i int64, rate float64) int64 { return int64(float64(i)*rate + 1e-9) }
