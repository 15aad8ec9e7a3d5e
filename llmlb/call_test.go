package llmlb

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestCallNeverPrintsItsPrompt(t *testing.T) {
	c := &Call{Body: []byte("SECRET"), Features: Features{Model: "SECRET"}}
	for _, format := range []string{"%v", "%s", "%+v", "%#v"} {
		if got := fmt.Sprintf(format, c); strings.Contains(got, "SECRET") {
			t.Errorf("%s prints %q", format, got)
		}
	}
}

func TestFirstTokenCountsOnce(t *testing.T) {
	p := NewPool("first")
	s := bound(t, p, Member{Address: "a:1"})
	e := s.Members[0].Endpoint
	c := NewCall(p, s, at(0))
	c.InputTokens = 10
	learned := 0
	c.Learn = func(time.Time) { learned++ }
	c.Lease = take(p, e, at(0))
	c.SawFirstToken(at(1))
	c.SawFirstToken(at(9))
	c.SawWhole(at(9))
	if n, sum, _ := e.TTFT.Snapshot(); n != 1 || sum != 1 {
		t.Errorf("%d first tokens of %vs, want one of 1s", n, sum)
	}
	if learned != 1 {
		t.Errorf("the index learned %d times, want once", learned)
	}
	c.EndAttempt(at(10), Served)
	c.EndAttempt(at(11), EngineError)
	if e.Ended(Served) != 1 || e.Ended(EngineError) != 0 {
		t.Error("an attempt must end exactly one way")
	}
}

func TestCallTravelsInTheContext(t *testing.T) {
	c := &Call{}
	if CallOf(context.Background()) != nil || CallOf(WithCall(context.Background(), c)) != c {
		t.Error("the context does not carry the call")
	}
}

func TestBlockArithmetic(t *testing.T) {
	for _, tc := range []struct{ bytes, count, end int }{
		{0, 0, 0},
		{255, 0, 0},
		{256, 1, 256},
		{4096, 16, 4096},
		{5119, 16, 4096},
		{5120, 17, 5120},
		{32 << 10, 44, 32 << 10},
		{34 << 10, 45, 34 << 10},
		{128 << 10, 92, 128 << 10},
		{132<<10 - 1, 92, 128 << 10},
		{400_000, 157, 397_312},
	} {
		if n := BlockCount(tc.bytes); n != tc.count || BlockEnd(n) != tc.end {
			t.Errorf("%d bytes: %d blocks ending at %d, want %d and %d", tc.bytes, n, BlockEnd(n), tc.count, tc.end)
		}
	}
	f := Features{InputTokens: 1000, PromptBytes: 4096}
	if got := f.CoveredTokens(8); got != 500 {
		t.Errorf("half the prompt holds %d tokens, want 500", got)
	}
	if got := f.CoveredTokens(1000); got != 1000 {
		t.Errorf("blocks beyond the prompt hold %d tokens, want all 1000", got)
	}
}

func TestHistogramIsCumulative(t *testing.T) {
	h := NewHistogram([]float64{0.1, 1})
	for _, ms := range []int{50, 100, 500, 5000} {
		h.Observe(time.Duration(ms) * time.Millisecond)
	}
	n, sum, b := h.Snapshot()
	if n != 4 || sum != 5.65 || b[0.1] != 2 || b[1] != 3 {
		t.Errorf("count %d sum %v buckets %v", n, sum, b)
	}
}
