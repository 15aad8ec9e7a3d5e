package trace

import "fmt"

// GSPOptions shape generated shared prefixes. What is 0 has its default.
type GSPOptions struct {
	// Rate is the mean of arrivals a second. They are a Poisson process.
	// Default: 16.
	Rate float64

	// Groups is how many different system prompts there are.
	// Default: 64.
	Groups int

	// Prompts is how many requests each of them has.
	// Default: 16.
	Prompts int

	// System, Question and Output are lengths in tokens: of what a group shares, of
	// what each request asks on its own, and of the answer. System may be negative
	// for none.
	// Default: 2048, 128 and 256.
	System, Question, Output int

	// Seed is that of the arrivals, of the order, and of the ids.
	Seed uint64
}

// GSP makes up the workload with which SGLang's benchmark measures caches of
// prefixes, "generated shared prefix", with the same defaults: groups of requests
// that share a long system prompt and ask a question each. The order is
// shuffled, so that a group's requests come at any time.
func GSP(o GSPOptions) (*Trace, error) {
	if o.Rate == 0 {
		o.Rate = 16
	}
	err := settle([]setting{
		{"groups", &o.Groups, 64, 1},
		{"prompts", &o.Prompts, 16, 1},
		{"system tokens", &o.System, 2048, 0},
		{"question tokens", &o.Question, 128, 1},
		{"output tokens", &o.Output, 256, 1},
	})
	if err == nil {
		err = bounds(float64(o.Groups)*float64(o.Prompts), float64(o.System)+float64(o.Question), o.Rate)
	}
	if err != nil {
		return nil, fmt.Errorf("generating gsp: %w", err)
	}

	t := &Trace{Name: "gsp", Block: pieceTokens, Requests: make([]Request, 0, o.Groups*o.Prompts)}
	for g := range o.Groups {
		var system prompt
		system.add(text(o.Seed, "gsp system", g), o.System)
		for k := range o.Prompts {
			p := system.clone(o.Question)
			p.add(text(o.Seed, "gsp question", g, k), o.Question)
			t.Requests = append(t.Requests, Request{Input: p.tokens, Output: o.Output, Blocks: p.ids})
		}
	}
	order := stream(o.Seed, streamOrder)
	order.Shuffle(len(t.Requests), func(i, j int) {
		t.Requests[i], t.Requests[j] = t.Requests[j], t.Requests[i]
	})
	arrivals := poisson{rand: stream(o.Seed, streamArrivals), rate: o.Rate}
	for i := range t.Requests {
		t.Requests[i].At = arrivals.next()
	}
	return t, nil
}
