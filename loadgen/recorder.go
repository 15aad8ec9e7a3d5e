package loadgen

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// recorder takes in what ended. Its memory is bounded by the numbers of classes,
// tenants and endpoints, not by that of requests.
type recorder struct {
	s     *Scenario
	begun time.Time

	open, tokens atomic.Int64

	mu        sync.Mutex
	started   int
	offering  time.Duration // how long requests were begun
	total     *group
	classes   []*group
	tenants   map[string]*group
	endpoints map[string]*group
	firsts    histogram // times to first token, of open requests too
	late      histogram
	faults    map[fault]int
	points    []point // a fair sample of all
	ended     int
	chance    *rand.Rand
	line      timeline

	stopped bool
	elapsed time.Duration
}

// fault is one way in which requests failed.
type fault struct {
	outcome string
	status  int
	message string
}

// point is one request in a plot.
type point struct {
	at      time.Duration
	ttft    time.Duration // 0 for no token
	class   int
	outcome string
}

const (
	maxPoints    = 20_000
	maxEndpoints = 256
	maxFaults    = 50
	maxMessage   = 200
	others       = "(others)" // endpoints and faults beyond the bound
)

func newRecorder(s *Scenario, begun time.Time) *recorder {
	r := &recorder{
		s: s, begun: begun, total: &group{}, tenants: make(map[string]*group),
		endpoints: make(map[string]*group), faults: make(map[fault]int),
		chance: rand.New(rand.NewPCG(s.Seed, 0)), line: timeline{step: finestStep},
	}
	for range s.Classes {
		r.classes = append(r.classes, &group{})
	}
	return r
}

func (r *recorder) begin() {
	r.open.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.started++
	r.offering = max(r.offering, time.Since(r.begun))
}

// offer notes that requests were begun until now, or would have been.
func (r *recorder) offer(until time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.offering = max(r.offering, until)
}

func (r *recorder) firstToken(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.firsts.add(d)
}

// end takes in a request that began.
func (r *recorder) end(x *sample) {
	r.open.Add(-1)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.s.Classes[x.class]
	r.total.add(x, c)
	r.classes[x.class].add(x, c)
	if x.tenant != "" {
		member(r.tenants, x.tenant, maxTenants+maxClasses).add(x, c)
	}
	if x.endpoint != "" {
		member(r.endpoints, x.endpoint, maxEndpoints).add(x, c)
	}
	if x.outcome != Unsent {
		r.late.add(x.late)
	}
	if x.message != "" {
		f := fault{x.outcome, x.status, printable(x.message, maxMessage)}
		if _, known := r.faults[f]; !known && len(r.faults) >= maxFaults {
			f.message = others
		}
		r.faults[f]++
	}
	r.keep(point{x.at, x.ttft, x.class, x.outcome})
}

// keep has each of all points with the same chance.
func (r *recorder) keep(p point) {
	r.ended++
	if len(r.points) < maxPoints {
		r.points = append(r.points, p)
	} else if i := r.chance.IntN(r.ended); i < maxPoints {
		r.points[i] = p
	}
}

func member(groups map[string]*group, name string, limit int) *group {
	g := groups[name]
	if g == nil {
		if len(groups) >= limit {
			name = others
		}
		if g = groups[name]; g == nil {
			g = &group{}
			groups[name] = g
		}
	}
	return g
}

// finish notes that nothing more will come.
func (r *recorder) finish(stopped bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped, r.elapsed = stopped, time.Since(r.begun)
}
