package virtual

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// prefillSpeed is how many prompt tokens a second the engine computes, between
// two lengths of prompts: what a longer prompt has more, by what it takes longer.
func prefillSpeed(t testing.TB, cfg engine.Config, short, long int) float64 {
	t.Helper()
	took := func(tokens int) time.Duration {
		var line timeline
		r := mustReplica(t, &line, cfg, func(engine.Event) {})
		if err := r.add(engine.Request{Input: tokens, Output: 1}); err != nil {
			t.Fatal(err)
		}
		line.run(func() bool { return false })
		return r.worked
	}
	return float64(long-short) / (took(long) - took(short)).Seconds()
}

// What is learned of an engine from first tokens alone is the speed it has, also
// where clients come one at a time and where prompts are so short that computing
// them takes less than all the rest.
func TestTheSpeedLearnedIsTheEngines(t *testing.T) {
	for _, tc := range []struct {
		clients int
		lengths lengths
	}{
		{1, lengths{500, 4000, 64, 200}},
		{2, lengths{500, 4000, 64, 200}},
		{4, lengths{500, 4000, 64, 200}},
		{1, lengths{200, 1000, 16, 64}},
	} {
		for _, preset := range []string{"8b-h100", "8b-a100"} {
			for _, factor := range []float64{1, 3} {
				t.Run(fmt.Sprintf("%d clients, prompts of %d to %d, %s × %v", tc.clients, tc.lengths.short, tc.lengths.long, preset, factor), func(t *testing.T) {
					cfg, _ := engine.Preset(preset)
					cfg = faster(cfg, factor)
					want := prefillSpeed(t, cfg, tc.lengths.short, tc.lengths.long)
					w := newWorld(t, 1, cfg)
					w.closedLoop(tc.clients, time.Second, w.prompts(tc.lengths))
					mean := 0.0
					for i := range 10 {
						w.settle(100 + 10*i)
						mean += w.speed(w.machines[0]) / 10
					}
					if mean < 0.8*want || mean > 1.2*want {
						t.Errorf("learned %.0f tokens a second, want the engine's %.0f ± 20 %%", mean, want)
					}
				})
			}
		}
	}
}
