package main

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// generator is -gen and its parameters. What is not given is 0, which is the
// generator's default.
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

// What b2b has by default here. The rate of the published benchmark is one that
// eight servers of twice the size bear for the 25 seconds for which it lasts: on the
// servers that are simulated by default it says nothing of a pool that has been at
// work for a while.
const (
	b2bRate     = 9
	b2bRequests = 9000
)

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
	spanVar(f, &g.think, "think", 0)
	f.Float64Var(&g.sigma, "sigma", 0, "")
	f.IntVar(&g.maxContext, "max-context", 0, "")
}

// check refuses parameters that would be passed over, or be taken for their
// defaults.
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
	return g.settle(set)
}

// settle checks what is given. To the generators 0 is a default and a negative
// number is none; on the command line 0 is none, where there can be none.
func (g *generator) settle(set map[string]bool) error {
	for _, x := range []struct {
		name string
		at   *int
		none bool
	}{
		{"requests", &g.requests, false},
		{"groups", &g.groups, false},
		{"tenants", &g.tenants, false},
		{"users", &g.users, false},
		{"turns", &g.turns, false},
		{"system", &g.system, true},
		{"context", &g.context, false},
		{"question", &g.question, false},
		{"output", &g.output, false},
		{"max-context", &g.maxContext, false},
	} {
		switch {
		case !set[x.name]:
		case *x.at > mostOf(x.name):
			return fmt.Errorf("-%s %d is more than it takes, a whole number up to %d", x.name, *x.at, mostOf(x.name))
		case *x.at > 0:
		case x.none && *x.at == 0:
			*x.at = -1
		case x.none:
			return fmt.Errorf("-%s %d must not be negative", x.name, *x.at)
		default:
			return fmt.Errorf("-%s %d must be at least 1; leave it out for the generator's default", x.name, *x.at)
		}
	}
	for _, x := range []struct {
		name string
		at   *float64
		none float64 // what stands for 0; NaN if 0 makes no sense
	}{
		{"rate", &g.rate, math.NaN()},
		{"warm-rate", &g.warm, 0},
		{"sigma", &g.sigma, -1},
	} {
		switch {
		case !set[x.name] || *x.at > 0:
		case *x.at == 0 && !math.IsNaN(x.none):
			*x.at = x.none
		case math.IsNaN(x.none):
			return fmt.Errorf("-%s %v must be above 0; leave it out for the generator's default", x.name, *x.at)
		default:
			return fmt.Errorf("-%s %v must be 0 or more", x.name, *x.at)
		}
	}
	switch {
	case g.think < 0:
		return fmt.Errorf("-think %v must not be negative", g.think)
	case set["think"] && g.think == 0:
		g.think = -1
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
		rate, measured := cmp.Or(g.rate, b2bRate), cmp.Or(g.requests, b2bRequests)
		o := trace.B2BOptions{
			Rate: rate, Requests: measured, WarmRate: g.warm, Tenants: g.tenants, Users: g.users,
			Context: g.context, Query: g.question, Output: g.output, Fresh: g.fresh, Seed: seed,
		}
		if t, err = trace.B2B(o); err == nil && g.warm > 0 {
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
