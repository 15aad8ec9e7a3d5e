package loadgen

import (
	"math"
	"slices"
	"testing"
	"time"
)

// completed is a scenario with its defaults.
func completed(t *testing.T, s Scenario) *Scenario {
	t.Helper()
	if err := s.complete(); err != nil {
		t.Fatal(err)
	}
	return &s
}

func arriving(r Rate, ramp, end time.Duration, seed uint64) []time.Duration {
	p := newPlanner(&Scenario{Seed: seed})
	return slices.Collect(arrivals(r, ramp, end, p.source(arrivalStream)))
}

// As many requests arrive as the rate says, evenly but at random moments.
func TestArrivalsComeAtTheRate(t *testing.T) {
	const rate, length = 50, 400 * time.Second
	times := arriving(Rate{To: rate}, 0, length, 7)
	expect := rate * length.Seconds()
	if n := float64(len(times)); math.Abs(n-expect) > 4*math.Sqrt(expect) {
		t.Errorf("%v requests arrived, expected about %v", n, expect)
	}
	// Of a Poisson process the deviation of the gaps is their mean.
	var sum, squares float64
	for i := 1; i < len(times); i++ {
		gap := (times[i] - times[i-1]).Seconds()
		sum, squares = sum+gap, squares+gap*gap
	}
	n := float64(len(times) - 1)
	mean := sum / n
	if deviation := math.Sqrt(squares/n - mean*mean); math.Abs(deviation/mean-1) > 0.05 {
		t.Errorf("gaps of %v ± %v s are not exponential", mean, deviation)
	}
}

func TestArrivalsRampUp(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rate  Rate
		parts [3]float64 // expected in the ramp's two halves and in as long after it
	}{
		{"from nothing", Rate{To: 40}, [3]float64{500, 1500, 2000}},
		{"from a rate", Rate{From: 20, To: 40}, [3]float64{1250, 1750, 2000}},
		{"down", Rate{From: 40, To: 20}, [3]float64{1750, 1250, 1000}},
		{"level", Rate{From: 40, To: 40}, [3]float64{2000, 2000, 2000}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var parts [3]float64
			for _, at := range arriving(tc.rate, 100*time.Second, 150*time.Second, 3) {
				parts[int(at/(50*time.Second))]++
			}
			for i, want := range tc.parts {
				if math.Abs(parts[i]-want) > 4*math.Sqrt(want) {
					t.Errorf("part %d has %v arrivals, expected about %v", i, parts[i], want)
				}
			}
		})
	}
}

// Who measures a change wants the same requests before and after it.
func TestSameSeedSamePlan(t *testing.T) {
	s := completed(t, Scenario{
		Seed: 5, Rate: Rate{To: 10}, Tenants: 8,
		Class:   Class{Input: Size{exponential, 500, 0}, Output: Size{between, 10, 90}, Prefixes: 20},
		Classes: []Class{{Name: "a"}, {Name: "b", Share: 2}},
	})
	other := *s
	other.Seed = 6
	one, two, three := newPlanner(s), newPlanner(s), newPlanner(&other)
	same := 0
	for n := range 100 {
		a := one.arrival(n)
		if b := two.arrival(n); a != b {
			t.Fatalf("request %d is %+v and %+v", n, a, b)
		}
		if a == three.arrival(n) {
			same++
		}
		if got, again := a.own(), a.own(); got != again {
			t.Fatal("a job's text differs from time to time")
		}
	}
	if same > 0 {
		t.Errorf("%d of 100 requests are the same with another seed", same)
	}
	if a, b := arriving(s.Rate, 0, time.Minute, 5), arriving(s.Rate, 0, time.Minute, 5); !slices.Equal(a, b) {
		t.Error("arrivals differ with the same seed")
	}
	if a, b := one.prefix(0, 3), two.prefix(0, 3); a != b {
		t.Error("a shared beginning differs from planner to planner")
	}
	if one.prefix(0, 3) == one.prefix(0, 4) || one.prefix(0, 3) == one.prefix(1, 3) {
		t.Error("two shared beginnings are the same")
	}
}

func TestShares(t *testing.T) {
	s := completed(t, Scenario{Rate: Rate{To: 1}, Tenants: 4, Class: Class{Prefixes: 10}, Classes: []Class{
		{Name: "edit", Share: 3}, {Name: "summary", Share: 1, Tenant: "night"},
	}})
	p := newPlanner(s)
	const n = 20_000
	classes, tenants, prefixes := make([]float64, 2), map[string]float64{}, make([]float64, 10)
	for i := range n {
		j := p.arrival(i)
		classes[j.class]++
		tenants[j.tenant]++
		prefixes[j.prefix]++
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/n-want) > 0.015 {
			t.Errorf("%s has %.3f of the requests, expected %.3f", what, got/n, want)
		}
	}
	near("edit", classes[0], 0.75)
	near("night", tenants["night"], 0.25)
	near("tenant-1", tenants["tenant-1"], 0.75/4)
	near("the first prefix", prefixes[0], 1/2.929) // the 10th harmonic number
	near("the tenth prefix", prefixes[9], 0.1/2.929)

	// Of a few clients each class has its part, too.
	of := p.classes(8)
	if got := len(of) - sum(of); got != 6 {
		t.Errorf("%d of 8 clients edit, expected 6: %v", got, of)
	}
}

func sum(of []int) (n int) {
	for _, x := range of {
		n += x
	}
	return n
}

func TestSizes(t *testing.T) {
	for _, tc := range []struct {
		text      string
		mean      float64
		low, high int
	}{
		{"512", 512, 512, 512},
		{"100-300", 200, 100, 300},
		{"exp:400", 400, 1, 3200},
	} {
		t.Run(tc.text, func(t *testing.T) {
			z, err := ParseSize(tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if z.String() != tc.text {
				t.Errorf("written as %s", z)
			}
			r := newPlanner(&Scenario{Seed: 1}).source(0)
			total := 0
			for range 20_000 {
				n := z.draw(r)
				if n < tc.low || n > tc.high {
					t.Fatalf("drew %d", n)
				}
				total += n
			}
			if mean := float64(total) / 20_000; math.Abs(mean/tc.mean-1) > 0.03 {
				t.Errorf("the mean is %v, expected %v", mean, tc.mean)
			}
		})
	}
	for _, bad := range []string{"", "0", "-5", "x", "300-100", "exp:", "exp:0", "1e3", "99999999", "1-2-3"} {
		if z, err := ParseSize(bad); err == nil {
			t.Errorf("%q was read as %v", bad, z)
		}
	}
}

// A word is a token, for those who count four bytes as one, too.
func TestTextHasAsManyTokensAsAsked(t *testing.T) {
	j := job{input: 300, text: 9}
	if got := len(j.own()); got != 1200 {
		t.Errorf("300 tokens have %d bytes", got)
	}
	for _, w := range words {
		if len(w) != 3 {
			t.Errorf("%q has %d letters", w, len(w))
		}
	}
}
