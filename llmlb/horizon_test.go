package llmlb

import (
	"testing"
	"time"
)

// What an engine is given at once fills a step on a fast one, and is half a second's
// work on any. It is more where answers are being written, up to four times as much,
// and that only while there is nobody else whose turn it could be.
func TestHorizon(t *testing.T) {
	for _, tc := range []struct {
		speed, running float64
		several        bool
		want           float64
	}{
		{500, 0, false, 300},
		{10_000, 1, false, 6000},
		{10_000, 2, false, 6000},
		{10_000, 5, false, 15_000},
		{10_000, 50, false, 24_000},
		{10_000, 50, true, 6000},
		{15_000, 0, false, 8192},
		{40_000, 0, true, 20_000},
		{40_000, 8, false, 80_000},
	} {
		if got := Horizon(tc.speed, tc.running, tc.several); got != tc.want {
			t.Errorf("%.0f tokens at %.0f a second beside %.0f, want %.0f", got, tc.speed, tc.running, tc.want)
		}
	}
}

// One tenant is nobody to be fair to; another one, or another class, is, until only
// one has asked for a minute.
func TestWhetherSeveralAsk(t *testing.T) {
	for name, other := range map[string]*Call{
		"tenant": {Tenant: "b", Class: "chat"}, "class": {Tenant: "a", Class: "batch"},
	} {
		p := NewPool("several " + name)
		one := &Call{Tenant: "a", Class: "chat"}
		for _, step := range []struct {
			second int
			asks   *Call
			want   bool
		}{{0, one, false}, {1, one, false}, {2, other, true}, {40, other, true}, {61, other, true}, {63, other, false}, {64, one, true}} {
			now := t0.Add(time.Duration(step.second) * time.Second)
			p.Lock()
			p.Asked(step.asks, now)
			if got := p.Several(now); got != step.want {
				t.Errorf("another %s, after %d s: several %v, want %v", name, step.second, got, step.want)
			}
			p.Unlock()
		}
	}
}
