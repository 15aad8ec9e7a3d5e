package trace

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// generators make a workload up, of the default shape but for its rate.
var generators = []struct {
	name string
	make func(rate float64, seed uint64) (*Trace, error)
}{
	{"gsp", func(rate float64, seed uint64) (*Trace, error) { return GSP(GSPOptions{Rate: rate, Seed: seed}) }},
	{"b2b", func(rate float64, seed uint64) (*Trace, error) { return B2B(B2BOptions{Rate: rate, Seed: seed}) }},
	{"multiturn", func(rate float64, seed uint64) (*Trace, error) {
		return Multiturn(MultiturnOptions{Rate: rate, Seed: seed})
	}},
}

// Generators are the names that Generate takes.
func Generators() []string {
	names := make([]string, len(generators))
	for i, g := range generators {
		names[i] = g.name
	}
	return names
}

// Generate makes up the workload of that name with all its defaults. A rate of 0
// is its default too. The same seed gives the same trace.
func Generate(name string, rate float64, seed uint64) (*Trace, error) {
	for _, g := range generators {
		if g.name == name {
			return g.make(rate, seed)
		}
	}
	return nil, fmt.Errorf("unknown generator %q; have %s", name, strings.Join(Generators(), ", "))
}

// setting is one number of a generator's.
type setting struct {
	name   string
	at     *int
	preset int
	least  int
}

// settle puts defaults where nothing is said and checks the rest. Where 0 can be
// meant, a negative number says so, because 0 is the default.
func settle(all []setting) error {
	for _, s := range all {
		switch n := *s.at; {
		case n == 0:
			*s.at = s.preset
		case n < 0 && s.least == 0:
			*s.at = 0
		case n < s.least || n > maxTokens:
			return fmt.Errorf("%s %d is not within %d to %d", s.name, n, s.least, maxTokens)
		}
	}
	return nil
}

// bounds refuse what would take all memory, or begin next year.
func bounds(requests, tokensEach, rate float64) error {
	switch {
	case !(rate > 0) || rate > 1e6:
		return fmt.Errorf("rate %v is not above 0 and up to 1e6 a second", rate)
	case requests > float64(readLimits.rows):
		return fmt.Errorf("%.0f requests are more than %d", requests, readLimits.rows)
	case requests*tokensEach/pieceTokens > float64(readLimits.ids):
		return fmt.Errorf("%.0f requests of %.0f tokens have more than %d pieces", requests, tokensEach, readLimits.ids)
	case requests/rate > maxSpan.Seconds():
		return errors.New("the last request would come too late for the rate")
	}
	return nil
}

// poisson are arrivals that do not know of each other.
type poisson struct {
	rand *rand.Rand
	rate float64 // a second
	now  time.Duration
}

func (p *poisson) next() time.Duration {
	p.now += time.Duration(p.rand.ExpFloat64() / p.rate * float64(time.Second))
	return p.now
}
