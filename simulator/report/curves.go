package report

import (
	"math"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// Curves are what the page draws of one run.
type Curves struct {
	Strategy string `json:"name"`

	// TTFT and TPOT are distributions: milliseconds, and the share of requests up
	// to there.
	TTFT [][2]float64 `json:"ttft"`
	TPOT [][2]float64 `json:"tpot"`

	Load Load `json:"load"`
}

// Load is what the servers had to do over time. Every value is by server and then
// by moment.
type Load struct {
	At      []float64 `json:"at"` // seconds
	Pending [][]int   `json:"pending"`
	Running [][]int   `json:"running"`
	Waiting [][]int   `json:"waiting"`
	Held    []int     `json:"held"` // in the gateways' queues
}

// maxMoments is how many moments of the load are kept: a slow run has many.
const maxMoments = 300

// NewCurves makes them of a run's records and of its samples, if there are any.
func NewCurves(strategy string, records []virtual.Record, samples []virtual.Sample) Curves {
	s := newSeries(records)
	return Curves{Strategy: strategy, TTFT: s.ttft.curve(), TPOT: s.tpot.curve(), Load: newLoad(samples)}
}

// curve is the distribution in steps that become finer towards the tail, where
// there is little of much interest.
func (t times) curve() [][2]float64 {
	points := [][2]float64{}
	add := func(q float64) {
		p := [2]float64{millis(t.quantile(q)), q}
		if n := len(points); n > 0 && points[n-1][0] == p[0] {
			points[n-1] = p // the same time: the highest share
			return
		}
		points = append(points, p)
	}
	if len(t) == 0 {
		return points
	}
	for k := range 98 {
		add(float64(k+1) / 100)
	}
	for k := range 20 {
		add(math.Round(981+float64(k)) / 1000)
	}
	return points
}

func newLoad(samples []virtual.Sample) Load {
	l := Load{At: []float64{}, Pending: [][]int{}, Running: [][]int{}, Waiting: [][]int{}, Held: []int{}}
	if len(samples) == 0 {
		return l
	}
	every := (len(samples) + maxMoments - 1) / maxMoments
	servers := len(samples[0].Running)
	for _, all := range []*[][]int{&l.Pending, &l.Running, &l.Waiting} {
		*all = make([][]int, servers)
	}
	for i := 0; i < len(samples); i += every {
		x := &samples[i]
		l.At = append(l.At, math.Round(float64(x.At)/float64(time.Second)*100)/100)
		l.Held = append(l.Held, x.Held)
		for k := range servers {
			l.Pending[k] = append(l.Pending[k], x.Pending[k])
			l.Running[k] = append(l.Running[k], x.Running[k])
			l.Waiting[k] = append(l.Waiting[k], x.Waiting[k])
		}
	}
	return l
}
