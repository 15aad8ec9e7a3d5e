package engine

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// With one sequence at a time and work proportional to the prompt the engine is
// an M/G/1 queue, and the mean time in it is what Pollaczek and Khinchine say it
// is: the mean size and the wait of rate·E[S²]/(2(1 - rho)). Sizes with long
// tails and a load of 0.9 need many jobs until the mean is steady, hence the
// wider tolerance there.
func TestMG1(t *testing.T) {
	if raceEnabled {
		t.Skip("nothing here is concurrent, and the race detector makes it slow")
	}
	for _, tc := range []struct {
		name      string
		rho       float64
		jobs      int
		size      func(*rand.Rand) int
		tolerance float64
	}{
		{"M/D/1 at 0.5", 0.5, 200_000, func(*rand.Rand) int { return 1000 }, 0.03},
		{"M/D/1 at 0.7", 0.7, 200_000, func(*rand.Rand) int { return 1000 }, 0.03},
		{"M/M/1 at 0.5", 0.5, 200_000, exponential, 0.03},
		{"M/M/1 at 0.8", 0.8, 200_000, exponential, 0.05},
		{"M/M/1 at 0.9", 0.9, 200_000, exponential, 0.08},
		{"two sizes at 0.7", 0.7, 200_000, twoSizes, 0.03},
		{"long tail at 0.7", 0.7, 1_000_000, longTail, 0.03},
		{"long tail at 0.9", 0.9, 1_000_000, longTail, 0.08},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checkMG1(t, tc.rho, tc.jobs, tc.size, tc.tolerance)
		})
	}
}

// The same with the prompt lengths of recorded chats, drawn at random.
func TestMG1WithRecordedSizes(t *testing.T) {
	if raceEnabled {
		t.Skip("nothing here is concurrent, and the race detector makes it slow")
	}
	sizes := recorded(t, "mooncake_conversation_60min_dithered.jsonl.gz")
	draw := func(r *rand.Rand) int { return sizes[r.IntN(len(sizes))].input }
	for _, tc := range []struct {
		name      string
		rho       float64
		tolerance float64
	}{
		{"at 0.7", 0.7, 0.03},
		{"at 0.9", 0.9, 0.08},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			checkMG1(t, tc.rho, 1_000_000, draw, tc.tolerance)
		})
	}
}

func exponential(r *rand.Rand) int {
	return max(1, int(math.Round(min(r.ExpFloat64()*1000, 60_000))))
}

func twoSizes(r *rand.Rand) int {
	if r.IntN(10) == 0 {
		return 5000
	}
	return 200
}

// longTail has a mean of 12,000, a median of 7,000 and a 99th percentile of
// 80,000 tokens.
func longTail(r *rand.Rand) int {
	return max(1, int(min(7000*math.Exp(1.04*r.NormFloat64()), 500_000)))
}

func checkMG1(t *testing.T, rho float64, jobs int, size func(*rand.Rand) int, tolerance float64) {
	t.Helper()
	const perToken = 0.01 // ms
	r, err := New(Config{
		Costs:    Costs{Token: perToken},
		KVTokens: 1 << 20, BlockSize: 1024, MaxSeqs: 1, MaxBatchedTokens: 1 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	sizes := make([]int, jobs)
	rng := rand.New(rand.NewPCG(1, 2))
	var sum, squares float64
	for i := range sizes {
		sizes[i] = size(rng)
		s := float64(sizes[i]) * perToken * 1e6
		sum += s
		squares += s * s
	}
	mean := sum / float64(jobs)
	rate := rho / mean
	want := mean + rate*(squares/float64(jobs))/(2*(1-rho))

	arrivals := make([]time.Duration, jobs)
	at := 0.0
	for i := range arrivals {
		at += rng.ExpFloat64() / rate
		arrivals[i] = time.Duration(at)
	}
	got := replay(t, r, arrivals, sizes)
	t.Logf("mean time in the system %.2f ms, expected %.2f ms", got/1e6, want/1e6)
	if math.Abs(got-want) > tolerance*want {
		t.Errorf("mean time in the system %.2f ms, want %.2f ms within %.0f %%", got/1e6, want/1e6, tolerance*100)
	}
}

// replay runs jobs of one output token and returns the mean time from arrival
// to that token, in nanoseconds. At equal times a step ends before a job
// arrives.
func replay(t *testing.T, r *Replica, arrivals []time.Duration, sizes []int) float64 {
	t.Helper()
	var now, total time.Duration
	var ev []Event
	next, served := 0, 0
	for served < len(arrivals) {
		for next < len(arrivals) && arrivals[next] <= now {
			if err := r.Add(arrivals[next], Request{ID: uint64(next), Input: sizes[next], Output: 1}); err != nil {
				t.Fatal(err)
			}
			next++
		}
		st, ok := r.Begin(now)
		if !ok {
			now = arrivals[next]
			continue
		}
		now += st.Duration
		ev = r.End(ev[:0])
		for _, e := range ev {
			total += now - e.Arrived
			served++
		}
	}
	return float64(total) / float64(len(arrivals))
}
