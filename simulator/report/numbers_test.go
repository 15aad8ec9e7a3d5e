package report

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

const ms = time.Millisecond

// answered is a request that came at a time and took so long.
func answered(at, ttft, rest time.Duration, output int) virtual.Record {
	return virtual.Record{
		Arrived: at, Placed: at, First: at + ttft, Last: at + ttft + rest,
		Input: 100, Cached: 20, Output: output,
	}
}

func TestQuantilesAreValuesThatOccurred(t *testing.T) {
	hundred := make(times, 100)
	for i := range hundred {
		hundred[i] = time.Duration(i + 1)
	}
	for _, tc := range []struct {
		name  string
		times times
		q     float64
		want  time.Duration
	}{
		{"none", nil, 0.5, 0},
		{"one", times{7}, 0.99, 7},
		{"of two the lower is the median", times{3, 9}, 0.5, 3},
		{"and the higher the tail", times{3, 9}, 0.9, 9},
		{"the 50th of 100", hundred, 0.50, 50},
		{"the 90th of 100", hundred, 0.90, 90},
		{"the 99th of 100", hundred, 0.99, 99},
		{"the 99.9th of 100 is the last", hundred, 0.999, 100},
		{"three of three", times{1, 2, 3}, 1, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := tc.times.quantile(tc.q); got != tc.want {
				t.Errorf("quantile %v is %v, want %v", tc.q, int64(got), int64(tc.want))
			}
		})
	}
}

func TestNumbersOfFourRequests(t *testing.T) {
	slow := answered(2*time.Second, 6*time.Second, 90*ms, 10)
	slow.Server = 1
	slow.Preemptions = 2
	halting := answered(3*time.Second, 300*ms, 1500*ms, 11) // 150 ms a token
	got := Measure([]virtual.Record{
		answered(0, 100*ms, 0, 1),              // no second token: no TPOT
		answered(time.Second, 200*ms, 9*ms, 4), // 3 ms a token
		slow,
		halting,
		{Arrived: 4 * time.Second, Last: 4 * time.Second, Input: 900, Server: -1, Refused: true},
		{Input: 900, Server: -1}, // never came: the run was ended before
	}, 2, SLO{TTFT: 5 * time.Second, TPOT: 100 * ms})
	want := Numbers{
		Requests: 6, Refused: 1, Preemptions: 2,
		TTFT:     Spread{Mean: 1650, P50: 200, P90: 6000, P99: 6000},
		E2E:      Spread{Mean: (100 + 209 + 6090 + 1800) / 4.0, P50: 209, P90: 6090, P99: 6090},
		TPOT:     Ends{P50: 10, P99: 150},
		HitRatio: 0.2, Goodput: 0.33333,
		Imbalance: 1.5, // three of the first server, one of the second
	}
	if got != want {
		t.Errorf("the numbers are\n%+v, want\n%+v", got, want)
	}
}

func TestNobodyAnsweredIsNotFast(t *testing.T) {
	refused := []virtual.Record{{Last: 1, Refused: true, Server: -1}}
	got := Measure(refused, 3, SLO{time.Second, time.Second})
	if got != (Numbers{Requests: 1, Refused: 1}) {
		t.Errorf("a single refused request makes %+v", got)
	}
	rows := Best([]Row{
		{Strategy: "refuses", Numbers: got},
		{Strategy: "slow", Numbers: Measure([]virtual.Record{answered(0, time.Hour, 0, 1)}, 1, SLO{})},
	})
	if rows[0].Strategy != "slow" {
		t.Error("who refuses everybody is listed as the fastest")
	}
}

func TestTheSLOIsMetUpToItsLimits(t *testing.T) {
	slo := SLO{TTFT: 5 * time.Second, TPOT: 100 * ms}
	for _, tc := range []struct {
		name string
		r    virtual.Record
		want bool
	}{
		{"at both limits", answered(0, 5*time.Second, 200*ms, 3), true},
		{"a first token too late", answered(0, 5*time.Second+1, 0, 3), false},
		{"a nanosecond a token too slow", answered(0, ms, 200*ms+2, 3), false},
		{"one token has no pace", answered(0, ms, time.Hour, 1), true},
		{"refused", virtual.Record{Refused: true, Last: 1}, false},
		{"not ended", virtual.Record{Arrived: 1}, false},
	} {
		if got := slo.Met(&tc.r); got != tc.want {
			t.Errorf("%s: met is %v", tc.name, got)
		}
	}
}

func TestCurvesRiseToAllRequests(t *testing.T) {
	var records []virtual.Record
	for i := range 1000 {
		records = append(records, answered(0, time.Duration(i/10+1)*ms, ms, 2))
	}
	c := NewCurves("x", records, nil)
	if n := len(c.TTFT); n < 80 || n > 120 {
		t.Errorf("the curve has %d points", n)
	}
	for i, p := range c.TTFT {
		if i > 0 && (p[0] <= c.TTFT[i-1][0] || p[1] <= c.TTFT[i-1][1]) {
			t.Errorf("point %d, %v, is not above %v", i, p, c.TTFT[i-1])
		}
	}
	if last := c.TTFT[len(c.TTFT)-1]; last != [2]float64{100, 1} {
		t.Errorf("the curve ends at %v, want all requests within 100 ms", last)
	}
	if len(c.TPOT) != 1 || c.TPOT[0] != [2]float64{1, 1} {
		t.Errorf("equal times make %v, want one step", c.TPOT)
	}
	if none := NewCurves("x", nil, nil); none.TTFT == nil || none.Load.At == nil {
		t.Error("no requests are null in the page's script, want an empty list")
	}
}

func TestTheLoadOfALongRunIsThinnedOut(t *testing.T) {
	var samples []virtual.Sample
	for i := range 1000 {
		samples = append(samples, virtual.Sample{
			At: time.Duration(i) * time.Second, Waiting: []int{1, 2}, Running: []int{3, i}, Pending: []int{5, 6}, Held: 7,
		})
	}
	l := NewCurves("x", nil, samples).Load
	if n := len(l.At); n != 250 || len(l.Running) != 2 || len(l.Running[1]) != n || len(l.Held) != n {
		t.Fatalf("of 1000 looks at two servers %d, %d and %d values were kept", len(l.At), len(l.Running[1]), len(l.Held))
	}
	if l.At[10] != 40 || l.Running[1][10] != 40 {
		t.Errorf("the 11th moment is %v s with %d running, want 40 and 40", l.At[10], l.Running[1][10])
	}
}
