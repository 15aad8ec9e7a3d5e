package status

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// row is one endpoint as the page's table has it. It can be compared, so that only
// rows that differ are sent: numbers are rounded to what is shown, and moments are
// told instead of durations that would change by themselves.
type row struct {
	Name string `json:"name"`
	rowState
	rowNumbers
}

// rowState is what an operator wants to see at once.
type rowState struct {
	Place   int    `json:"i"` // in the order of the configuration
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"`
	Since   moment `json:"since,omitempty"`
	Next    string `json:"next,omitempty"` // what it waits for, as "trial"
	NextAt  moment `json:"next_at,omitempty"`
	DrainBy string `json:"drain_by,omitempty"` // "order" or "configuration"
}

// rowNumbers are those that change all the time.
type rowNumbers struct {
	Running  number  `json:"running"`
	Waiting  number  `json:"waiting"`
	KV       number  `json:"kv"`
	TTFT     number  `json:"ttft"`
	Speed    number  `json:"speed"`
	Tokens   number  `json:"tokens"`
	Calls    int     `json:"calls"`
	Errors   number  `json:"errors"`
	Share    number  `json:"share"`
	Age      int     `json:"age,omitempty"` // seconds, of numbers that are too old
	Loadless bool    `json:"loadless,omitempty"`
	Zone     string  `json:"zone,omitempty"`
	Weight   float64 `json:"weight,omitempty"`
}

// number is one that is not known when it is negative. It is null then.
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	if n < 0 || math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, float64(n), 'f', -1, 64), nil
}

// moment is a time in Unix milliseconds, 0 for none.
type moment int64

func at(t time.Time) moment {
	if t.IsZero() {
		return 0
	}
	return moment(t.UnixMilli())
}

// rounded keeps as many digits as a person reads.
func rounded(x float64) number {
	if x <= 0 || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(x))-2)
	return number(math.Round(x/unit) * unit)
}

func known(x *float64, round func(float64) number) number {
	if x == nil {
		return -1
	}
	return round(*x)
}

// hundredths rounds a share.
func hundredths(x float64) number { return number(math.Round(100*x) / 100) }

func rowOf(place int, e *llmlb.EndpointStatus) row {
	r := row{
		Name: e.Name,
		rowState: rowState{
			Place: place, State: e.State, Reason: nameless(e.Reason, e.Name, e.Address), Since: at(e.Since), NextAt: at(e.RetryAt),
		},
		rowNumbers: rowNumbers{
			Running: known(e.Running, rounded), Waiting: known(e.Waiting, rounded), KV: known(e.KVUsage, hundredths),
			TTFT: known(e.TTFTMillis, rounded), Speed: known(e.TokensPerSecond, rounded),
			Tokens: rounded(float64(e.PrefillTokens + e.OutputTokens)), Calls: e.Calls,
			Errors: hundredths(e.ErrorRate), Share: hundredths(e.Share),
			Loadless: e.Loadless, Zone: e.Zone, Weight: e.Weight,
		},
	}
	r.Next, _, _ = strings.Cut(e.Next, " in ")
	if e.Drain != nil {
		r.DrainBy = e.Drain.By
	}
	if e.Blind && e.ScrapeAgeMillis != nil {
		r.Age = int(*e.ScrapeAgeMillis / 1000)
		if r.Age > 60 {
			r.Age -= r.Age % 60
		}
	}
	return r
}

// nameless puts the endpoint's name in place of its address in words about it. No
// reason has one that we know of; that names alone are shown must not hang on it.
func nameless(words, name, address string) string {
	if address == "" || words == "" {
		return words
	}
	return strings.ReplaceAll(words, address, name)
}
