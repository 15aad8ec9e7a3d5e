package virtual

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// defaultEngine is the one of tests that need no other.
const defaultEngine = "8b-h100"

// mustReplica is newReplica in tests.
func mustReplica(t testing.TB, line *timeline, cfg engine.Config, token func(engine.Event)) *replica {
	t.Helper()
	r, err := newReplica(line, cfg, token)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// faster is the same engine on an accelerator that is so many times faster.
func faster(cfg engine.Config, factor float64) engine.Config {
	k := &cfg.Costs
	for _, cost := range []*float64{&k.Base, &k.Floor, &k.Weights, &k.Token, &k.Pair, &k.Context, &k.Sequence} {
		*cost /= factor
	}
	return cfg
}

// A replica in virtual time takes as long as the engine's own steps, one after
// the other, and an engine three times as fast a third of that.
func TestReplicaTakesAsLongAsItsSteps(t *testing.T) {
	cfg, _ := engine.Preset(defaultEngine)
	took := func(speed float64) time.Duration {
		var line timeline
		var last time.Duration
		tokens := 0
		r := mustReplica(t, &line, faster(cfg, speed), func(engine.Event) { tokens++; last = line.now })
		for id := range uint64(2) {
			line.after(time.Second, arrives, func() {
				if err := r.add(engine.Request{ID: id, Input: 3000, Output: 50}); err != nil {
					t.Error(err)
				}
			})
		}
		line.run(func() bool { return false })
		if tokens != 100 || r.busy || r.worked != last-time.Second {
			t.Errorf("%d tokens in %v of work, the last at %v", tokens, r.worked, last)
		}
		return r.worked
	}
	slow, fast := took(1), took(3)
	if slow < 400*time.Millisecond || slow > 600*time.Millisecond {
		t.Errorf("two answers of 50 tokens took %v", slow)
	}
	if d := slow - 3*fast; d.Abs() > time.Microsecond {
		t.Errorf("took %v and %v, want 3 : 1", slow, fast)
	}
}
