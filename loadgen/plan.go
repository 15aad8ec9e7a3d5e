package loadgen

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// job is one request to send.
type job struct {
	class  int
	tenant string // "" for none
	prefix int    // -1 for none
	input  int    // tokens of its own text
	output int    // tokens asked for
	text   uint64 // what its own text is made from
}

// planner draws jobs. The same scenario gives the same jobs, whatever happens to
// them: each has a source of chance of its own.
type planner struct {
	s     *Scenario
	upto  []float64   // the shares of the classes, summed up
	zipfs [][]float64 // of each class, the chances of its prefixes summed up
}

func newPlanner(s *Scenario) *planner {
	p := &planner{s: s, upto: make([]float64, 0, len(s.Classes)), zipfs: make([][]float64, len(s.Classes))}
	sum := 0.0
	for i, c := range s.Classes {
		sum += c.Share
		p.upto = append(p.upto, sum)
		p.zipfs[i] = zipf(c.Prefixes)
	}
	return p
}

// zipf sums up chances of which the n-th is 1/n of the first.
func zipf(n int) []float64 {
	upto := make([]float64, n)
	sum := 0.0
	for i := range upto {
		sum += 1 / float64(i+1)
		upto[i] = sum
	}
	return upto
}

// pick draws an index by chances that were summed up.
func pick(upto []float64, r *rand.Rand) int {
	x := r.Float64() * upto[len(upto)-1]
	i, _ := slices.BinarySearchFunc(upto, x, func(sum, x float64) int {
		if sum <= x {
			return -1
		}
		return 1
	})
	return min(i, len(upto)-1)
}

// source is the chance of the n-th job, or of anything else that has a number.
func (p *planner) source(n uint64) *rand.Rand { return rand.New(rand.NewPCG(p.s.Seed, n)) }

// arrival is the n-th job of an open loop.
func (p *planner) arrival(n int) job {
	r := p.source(uint64(n))
	class := pick(p.upto, r)
	tenant := 0
	if p.s.Tenants > 0 {
		tenant = r.IntN(p.s.Tenants)
	}
	return p.draw(class, tenant, r)
}

// draw makes a job; the tenant counts from 0.
func (p *planner) draw(class, tenant int, r *rand.Rand) job {
	c := &p.s.Classes[class]
	j := job{class: class, prefix: -1, tenant: c.Tenant}
	if j.tenant == "" && p.s.Tenants > 0 {
		j.tenant = "tenant-" + strconv.Itoa(tenant+1)
	}
	if c.Prefixes > 0 {
		j.prefix = pick(p.zipfs[class], r)
	}
	j.input, j.output, j.text = c.Input.draw(r), c.Output.draw(r), r.Uint64()
	return j
}

// classes says which class each of n clients is of: as near to the shares as
// whole clients come, at every n.
func (p *planner) classes(n int) []int {
	of, have := make([]int, n), make([]int, len(p.upto))
	total := p.upto[len(p.upto)-1]
	for i := range of {
		best, least := 0, math.Inf(1)
		for c := range have {
			// Who is furthest behind is who has the fewest for its share.
			if x := (float64(have[c]) + 0.5) / (p.s.Classes[c].Share / total); x < least {
				best, least = c, x
			}
		}
		of[i] = best
		have[best]++
	}
	return of
}
