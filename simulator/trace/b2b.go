package trace

import (
	"fmt"
	"strconv"
)

// B2BOptions shape a service of other companies' applications. What is 0 has its
// default.
type B2BOptions struct {
	// Rate is the mean of arrivals a second. They are a Poisson process.
	// Default: 60, the last stage of the published benchmark.
	Rate float64

	// Requests is how many there are, without those of WarmRate.
	// Default: 1500.
	Requests int

	// WarmRate, if above 0, puts one request of each user before the others, in any
	// order and at that rate: the caches' first fill, which is not to be measured.
	// They are the first Tenants times Users requests of the trace.
	// Default: 0, no such requests.
	WarmRate float64

	// Tenants is how many contexts there are, Users how many people ask within each.
	// Default: 150 and 5.
	Tenants, Users int

	// Context, Query and Output are lengths in tokens: of what a tenant's users
	// share, of what one of them asks, and of the answer.
	// Default: 6000, 1200 and 1000.
	Context, Query, Output int

	// Fresh is whether a user asks something new each time.
	// Default: false, the same again, as in the published benchmark.
	Fresh bool

	// Seed is that of the arrivals, of who asks, and of the ids.
	Seed uint64
}

// B2B makes up the workload of llm-d's published benchmark of prefix caches: each
// request is of a user drawn at random, and has the long context of the user's
// tenant and a query. As in the tool that ran it there is one query to a user,
// which is asked again and again, so that all prompts together have 1.8 million
// tokens: 73 % of the caches of the eight servers that it was run on. The client is
// the tenant.
func B2B(o B2BOptions) (*Trace, error) {
	if o.Rate == 0 {
		o.Rate = 60
	}
	err := settle([]setting{
		{"requests", &o.Requests, 1500, 1},
		{"tenants", &o.Tenants, 150, 1},
		{"users", &o.Users, 5, 1},
		{"context tokens", &o.Context, 6000, 1},
		{"query tokens", &o.Query, 1200, 1},
		{"output tokens", &o.Output, 1000, 1},
	})
	users := float64(o.Tenants) * float64(o.Users)
	each := float64(o.Context) + float64(o.Query)
	if err == nil {
		err = bounds(float64(o.Requests)+users, each, o.Rate)
	}
	if err == nil && o.WarmRate != 0 {
		err = bounds(users, each, o.WarmRate)
	}
	if err != nil {
		return nil, fmt.Errorf("generating b2b: %w", err)
	}

	prompts := make([]prompt, o.Tenants*o.Users)
	for tenant := range o.Tenants {
		var context prompt
		context.add(text(o.Seed, "b2b context", tenant), o.Context)
		for user := range o.Users {
			at := tenant*o.Users + user
			prompts[at] = context.clone(o.Query)
			if !o.Fresh {
				prompts[at].add(text(o.Seed, "b2b query", at), o.Query)
			}
		}
	}
	t := &Trace{Name: "b2b", Block: pieceTokens}
	who := stream(o.Seed, streamOrder)
	arrivals := poisson{rand: stream(o.Seed, streamArrivals), rate: o.WarmRate}
	ask := func(user int) {
		p := prompts[user]
		if o.Fresh {
			p = p.clone(o.Query)
			p.add(text(o.Seed, "b2b fresh", len(t.Requests)), o.Query)
		}
		t.Requests = append(t.Requests, Request{
			At: arrivals.next(), Input: p.tokens, Output: o.Output, Blocks: p.ids,
			Client: "tenant-" + strconv.Itoa(user/o.Users),
		})
	}
	if o.WarmRate > 0 {
		for _, user := range who.Perm(len(prompts)) {
			ask(user)
		}
	}
	arrivals.rate = o.Rate
	for range o.Requests {
		ask(who.IntN(len(prompts)))
	}
	return t, nil
}
