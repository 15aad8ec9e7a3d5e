package main

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// generator is -gen and its parameters. 0 is a parameter's default.
type generator struct {
	name              string
	rate, warm, sigma float64
	requests          int
	groups, tenants   int
	users, turns      int
	system, context   int
	question, output  int
	maxContext        int
	think             time.Duration
	fresh             bool
}

// gspGroups is how many groups trace.GSP has by default.
const gspGroups = 64

// takes are the parameters of each generator.
var takes = map[string][]string{
	"gsp":       {"rate", "requests", "groups", "system", "question", "output"},
	"b2b":       {"rate", "requests", "warm-rate", "tenants", "users", "context", "question", "output", "fresh"},
	"multiturn": {"rate", "requests", "turns", "think", "groups", "system", "question", "output", "sigma", "max-context"},
}

func (g *generator) flags(f *flag.FlagSet) {
	f.StringVar(&g.name, "gen", "", "")
	f.Float64Var(&g.rate, "rate", 0, "")
	f.IntVar(&g.requests, "requests", 0, "")
	f.IntVar(&g.groups, "groups", 0, "")
	f.IntVar(&g.system, "system", 0, "")
	f.IntVar(&g.question, "question", 0, "")
	f.IntVar(&g.output, "output", 0, "")
	f.Float64Var(&g.warm, "warm-rate", 0, "")
	f.IntVar(&g.tenants, "tenants", 0, "")
	f.IntVar(&g.users, "users", 0, "")
	f.IntVar(&g.context, "context", 0, "")
	f.BoolVar(&g.fresh, "fresh", false, "")
	f.IntVar(&g.turns, "turns", 0, "")
	f.DurationVar(&g.think, "think", 0, "")
	f.Float64Var(&g.sigma, "sigma", 0, "")
	f.IntVar(&g.maxContext, "max-context", 0, "")
}

// check refuses parameters that would be passed over.
func (g *generator) check(set map[string]bool) error {
	mine, known := takes[g.name]
	if g.name != "" && !known {
		return fmt.Errorf("-gen %q is unknown; have %s", g.name, strings.Join(trace.Generators(), ", "))
	}
	for _, name := range trace.Generators() {
		for _, p := range takes[name] {
			switch {
			case !set[p] || slices.Contains(mine, p):
			case g.name == "":
				return fmt.Errorf("-%s shapes a workload that is made up: it goes with -gen %s", p, name)
			default:
				return fmt.Errorf("-gen %s has no -%s; it takes -%s", g.name, p, strings.Join(mine, ", -"))
			}
		}
	}
	return nil
}

// make makes the workload up, and says how many of its first requests only fill
// the caches.
func (g *generator) make(seed uint64) (t *trace.Trace, warm int, err error) {
	switch g.name {
	case "gsp":
		o := trace.GSPOptions{Rate: g.rate, Groups: g.groups, System: g.system, Question: g.question, Output: g.output, Seed: seed}
		if g.requests > 0 {
			if o.Groups == 0 {
				o.Groups = min(gspGroups, g.requests)
			}
			if o.Groups > g.requests {
				return nil, 0, fmt.Errorf("-requests %d are fewer than -groups %d", g.requests, o.Groups)
			}
			o.Prompts = (g.requests + o.Groups - 1) / o.Groups
		}
		if t, err = trace.GSP(o); err == nil && g.requests > 0 {
			t.Requests = t.Requests[:g.requests] // which were whole groups, in any order
		}
	case "b2b":
		o := trace.B2BOptions{
			Rate: g.rate, Requests: g.requests, WarmRate: g.warm, Tenants: g.tenants, Users: g.users,
			Context: g.context, Query: g.question, Output: g.output, Fresh: g.fresh, Seed: seed,
		}
		if t, err = trace.B2B(o); err == nil && g.warm > 0 {
			measured := g.requests
			if measured == 0 {
				plain := o
				plain.WarmRate = 0
				p, err := trace.B2B(plain)
				if err != nil {
					return nil, 0, err
				}
				measured = len(p.Requests)
			}
			warm = len(t.Requests) - measured
		}
	default:
		t, err = trace.Multiturn(trace.MultiturnOptions{
			Rate: g.rate, Conversations: g.requests, Turns: g.turns, Think: g.think, System: g.system, Groups: g.groups,
			Question: g.question, Answer: g.output, Sigma: g.sigma, MaxContext: g.maxContext, Seed: seed,
		})
	}
	return t, warm, err
}
