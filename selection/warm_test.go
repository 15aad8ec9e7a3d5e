package selection

import (
	"fmt"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// min_tokens keeps a short shared head from tying long prompts to one endpoint.
// A short prompt that is nearly all cached is another matter: it belongs there.
func TestShortPromptsAreWarmWhereNearlyAllIsCached(t *testing.T) {
	for _, tc := range []struct {
		preamble, question int
		want               llmlb.Reason
	}{
		{420, 40, llmlb.ReasonWarm},
		{420, 1600, llmlb.ReasonCold}, // a fifth of it, and below min_tokens
		{800, 1600, llmlb.ReasonWarm},
	} {
		t.Run(fmt.Sprintf("%d of %d tokens", tc.preamble, tc.preamble+tc.question), func(t *testing.T) {
			w := newWorld(t, addresses(2)...)
			w.scrapeAll(0, 0, 0)
			ask := func(question string) (string, llmlb.Decision) {
				return w.serve(prompt(part{"a preamble", tc.preamble}, part{question, tc.question}))
			}
			home, _ := ask("the first question")
			for i := range 8 {
				at, d := ask(fmt.Sprint("question ", i))
				if d.Reason == llmlb.ReasonWarm != (tc.want == llmlb.ReasonWarm) {
					t.Fatalf("reason %v, want %v", d.Reason, tc.want)
				}
				if tc.want == llmlb.ReasonWarm && at != home {
					t.Errorf("went to %s, want the warm %s", at, home)
				}
			}
		})
	}
}
