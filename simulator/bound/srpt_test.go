package bound

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// perToken is an engine that takes a millisecond for each token of a prompt.
func perToken() engine.Config {
	return engine.Config{
		Costs:            engine.Costs{Token: 1},
		KVTokens:         1 << 20,
		BlockSize:        16,
		MaxSeqs:          64,
		MaxBatchedTokens: 8192,
	}
}

type arrival struct{ ms, tokens int }

func arrivals(list ...arrival) *trace.Trace {
	t := new(trace.Trace)
	for _, a := range list {
		t.Requests = append(t.Requests, trace.Request{
			At: time.Duration(a.ms) * time.Millisecond, Input: a.tokens, Output: 1,
		})
	}
	return t
}

func TestSRPT(t *testing.T) {
	for _, test := range []struct {
		name     string
		replicas int
		trace    *trace.Trace
		want     time.Duration
	}{
		{"nothing", 1, arrivals(), 0},
		{"one", 1, arrivals(arrival{5, 10}), 10 * time.Millisecond},
		{"two replicas are one that is twice as fast", 2, arrivals(arrival{5, 10}), 5 * time.Millisecond},
		// 2, 2+6 = 8.
		{"the shorter first", 1, arrivals(arrival{0, 6}, arrival{0, 2}), 5 * time.Millisecond},
		// The second interrupts: done at 4 after 3; the first ends at 13.
		{"a short one interrupts", 1, arrivals(arrival{0, 10}, arrival{1, 3}), 8 * time.Millisecond},
		// 2 are left of the first: it goes on. 10, then 13 after 5.
		{"what is nearly done is not interrupted", 1, arrivals(arrival{0, 10}, arrival{8, 3}), 7500 * time.Microsecond},
		{"idle in between", 1, arrivals(arrival{0, 4}, arrival{100, 8}), 6 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := SRPT(test.trace, perToken(), test.replicas); got != test.want {
				t.Errorf("mean of %v, want %v", got, test.want)
			}
		})
	}
}

// Every schedule of one machine is at best as good as some fixed order of
// precedence; the bound is the best of them all.
func TestSRPTIsTheBestOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 1))
	for range 200 {
		list := make([]arrival, 1+rnd.IntN(5))
		ms := 0
		for i := range list {
			ms += rnd.IntN(5)
			list[i] = arrival{ms, 1 + rnd.IntN(8)}
		}
		best := 1 << 30
		permute(len(list), func(order []int) { best = min(best, flow(list, order)) })
		want := time.Duration(best) * time.Millisecond / time.Duration(len(list))
		if got := SRPT(arrivals(list...), perToken(), 1); got != want {
			t.Fatalf("mean of %v, but the best order has %v: %v", got, want, list)
		}
	}
}

// flow is the sum of all times to first token, in milliseconds, if of those that
// wait the first in order is always worked on.
func flow(list []arrival, order []int) int {
	left := make([]int, len(list))
	for i, a := range list {
		left[i] = a.tokens
	}
	sum := 0
	for now, done := 0, 0; done < len(list); now++ {
		for _, i := range order {
			if left[i] == 0 || list[i].ms > now {
				continue
			}
			if left[i]--; left[i] == 0 {
				sum += now + 1 - list[i].ms
				done++
			}
			break
		}
	}
	return sum
}

// permute calls f with every order of n things.
func permute(n int, f func([]int)) {
	order := make([]int, 0, n)
	var next func()
	next = func() {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				order = append(order, i)
				next()
				order = order[:len(order)-1]
			}
		}
	}
	next()
}

func TestLowerMeanTTFTIsTheHigherBound(t *testing.T) {
	c := perToken()
	quiet := arrivals(arrival{0, 100}, arrival{1000, 100})
	if got, want := LowerMeanTTFT(quiet, c, 4), 100*time.Millisecond; (got - want).Abs() > 1 {
		t.Errorf("where nobody waits the bound is %v, want that of requests alone, %v", got, want)
	}
	burst := arrivals(arrival{0, 100}, arrival{0, 100}, arrival{0, 100}, arrival{0, 100})
	if got, want := LowerMeanTTFT(burst, c, 1), 250*time.Millisecond; got != want {
		t.Errorf("in a burst the bound is %v, want that of the load, %v", got, want)
	}
	burst.Requests[3].Follows = 1
	if got, want := LowerMeanTTFT(burst, c, 1), 100*time.Millisecond; (got - want).Abs() > 1 {
		t.Errorf("where requests follow others the bound is %v, want that of requests alone, %v", got, want)
	}
}
