package virtual

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// One request is longer than any server's memory. It is refused, and those before and
// after it are served. It once held up the whole run: the engine said no while the
// queue was giving the place away.
func TestWhatNoServerCanHoldIsRefused(t *testing.T) {
	cfg, _ := engine.Preset("8b-h100")
	tr := &trace.Trace{Requests: []trace.Request{
		{Input: 1000, Output: 10},
		{At: time.Second, Input: 5_000_000, Output: 10},
		{At: 2 * time.Second, Input: 1000, Output: 10},
	}}
	for _, strategy := range selection.Strategies() {
		r, err := Run(Config{Engines: []engine.Config{cfg, cfg}, Strategy: strategy}, tr)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{false, true, false} {
			if x := r.Records[i]; x.Refused != want || !want && x.Output != 10 {
				t.Errorf("%s: request %d: %+v, want refused: %v", strategy, i, x, want)
			}
		}
	}
}
