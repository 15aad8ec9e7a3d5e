package loadgen

import "time"

// group adds up requests that have something in common.
type group struct {
	ended, good, undecided int
	outcomes               map[string]int
	statuses               map[int]int
	ttft, itl, tpot, e2e   histogram
	input, cached, output  int // tokens
}

func (g *group) add(x *sample, c *Class) {
	if g.outcomes == nil {
		g.outcomes, g.statuses = make(map[string]int), make(map[int]int)
	}
	g.ended++
	g.outcomes[x.outcome]++
	if x.status != 0 {
		g.statuses[x.status]++
	}
	if x.good(c) {
		g.good++
	}
	if x.undecided(c) {
		g.undecided++
	}
	if x.ttft > 0 {
		g.ttft.add(x.ttft)
		g.input += x.input
		g.cached += x.cached
	}
	g.output += x.output
	for _, d := range x.gaps {
		g.itl.add(d)
	}
	if x.outcome != OK { // how long half an answer took says nothing
		return
	}
	g.e2e.add(x.e2e)
	if d := x.tpot(); d > 0 {
		g.tpot.add(d)
	}
}

// Group is what a group of requests felt. Times are in milliseconds.
type Group struct {
	Name string `json:"name,omitempty"`

	Offered  int            `json:"offered"` // requests, however they ended
	Outcomes map[string]int `json:"outcomes"`
	Statuses map[int]int    `json:"statuses,omitempty"`

	// Good counts those that finished within the SLO, Goodput is their share of
	// those offered, 0 to 1; nil where none was decided.
	Good    int      `json:"good"`
	Goodput *float64 `json:"goodput"`

	// From the time at which the request was to be sent. TTFT is of all that had a
	// first token, E2E of those that ended well; ITL is between two events with
	// tokens, TPOT the mean of one request.
	TTFT *Spread `json:"ttft_ms,omitempty"`
	ITL  *Spread `json:"itl_ms,omitempty"`
	TPOT *Spread `json:"tpot_ms,omitempty"`
	E2E  *Spread `json:"e2e_ms,omitempty"`

	// Input is the prompt tokens of requests that had a first token, Cached how
	// many of those the server says it had in its cache.
	Input  int `json:"input_tokens"`
	Cached int `json:"cached_tokens"`
	Output int `json:"output_tokens"`

	// A second, from the begin to the last byte.
	RequestRate float64 `json:"requests_per_second"` // that ended well
	GoodRate    float64 `json:"good_per_second"`
	InputRate   float64 `json:"input_tokens_per_second"`
	OutputRate  float64 `json:"output_tokens_per_second"`
}

func (g *group) report(name string, elapsed time.Duration) Group {
	rate := func(n int) float64 {
		if elapsed <= 0 {
			return 0
		}
		return rounded(float64(n) / elapsed.Seconds())
	}
	out := Group{
		Name: name, Offered: g.ended, Outcomes: g.outcomes, Statuses: g.statuses, Good: g.good,
		TTFT: g.ttft.spread(), ITL: g.itl.spread(), TPOT: g.tpot.spread(), E2E: g.e2e.spread(),
		Input: g.input, Cached: g.cached, Output: g.output,
		RequestRate: rate(g.outcomes[OK]), GoodRate: rate(g.good), InputRate: rate(g.input), OutputRate: rate(g.output),
	}
	if out.Outcomes == nil {
		out.Outcomes = map[string]int{}
	}
	if decided := g.ended - g.undecided; decided > 0 {
		out.Goodput = new(float64(g.good) / float64(decided))
	}
	return out
}

// Failed counts what neither ended well nor was given up by us.
func (g *Group) Failed() int { return g.Offered - g.Outcomes[OK] - g.Outcomes[Stopped] }
