package virtual

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// shared returns prompts that begin with the same text and end with a question
// of their own. In a chat the question is part of what a conversation is known
// by; in a plain text the beginning alone is.
func (w *world) shared(tokens int, chat bool) func() *prompt {
	head := w.write(tokens)
	first := 1
	if chat {
		first = 2
	}
	return func() *prompt {
		return &prompt{
			text: []passage{head, w.write(w.between(20, 120))}, answer: w.write(w.between(32, 96)), first: first,
		}
	}
}

// Everybody asks about the same 4,000 tokens. While they ask now and then, one
// server has them in its cache and answers all. When they ask more than one
// server could answer, all of them do, and about equally.
func TestAHotPrefixStaysUntilItIsTooMuch(t *testing.T) {
	cfg, _ := engine.Preset("8b-a100")
	servers := []engine.Config{cfg, cfg, cfg, cfg}
	alone := newWorld(t, 1, cfg)
	alone.closedLoop(128, time.Second, alone.shared(4000, true))
	alone.until(300)
	begin := alone.now
	alone.until(1500)
	one := 1200 / (alone.now - begin).Seconds() // calls a second

	for _, chat := range []bool{true, false} {
		for _, rate := range []float64{0.02, 1.5, 2.5, 3.5} {
			t.Run(fmt.Sprintf("%v times what one can, chat %v", rate, chat), func(t *testing.T) {
				for seed := range seeds(2) {
					w := newWorld(t, seed, servers...).scraped()
					w.openLoop(rate*one, w.shared(4000, chat))
					w.settle(1200)
					got := w.count(200, 1200)
					most, least := slices.Max(got), slices.Min(got)
					switch {
					case rate < 1 && most < 950:
						t.Errorf("seed %d: calls went to %v, want nearly all at one server", seed, got)
					case rate > 2 && (most > 1000/4*3/2 || least == 0):
						t.Errorf("seed %d: calls went to %v, want none above 1.5 times the mean", seed, got)
					case rate > 1 && most > 600: // two could answer all
						t.Errorf("seed %d: calls went to %v, want none that gets all that one can answer", seed, got)
					}
				}
			})
		}
	}
}

// Twenty people talk with the model, and others use it too. A turn goes where
// the turn before went, because the conversation is in the cache there.
func TestTurnsGoWhereTheTurnBeforeWent(t *testing.T) {
	cfg, _ := engine.Preset(defaultEngine)
	servers := []engine.Config{cfg, cfg, cfg, cfg}
	others := lengths{500, 4000, 64, 200}
	full := capacity(t, others, servers...)
	for _, share := range []float64{0, 0.15} {
		t.Run(fmt.Sprintf("others use %.0f %%", 100*share), func(t *testing.T) {
			for seed := range seeds(4) {
				w := newWorld(t, seed, servers...).scraped()
				if share > 0 {
					w.openLoop(share*full, w.prompts(others))
				}
				system := w.write(600)
				kept, turns, finished := 0, 0, 0
				for range 20 {
					var before *machine
					left := 8
					w.converse(left, 10*time.Second, 4*time.Second, system, func() (question, answer passage) {
						return w.write(w.between(50, 500)), w.write(w.between(64, 256))
					}, func(v *visit) {
						if before != nil {
							turns++
							if v.machine == before {
								kept++
							}
						}
						before = v.machine
						if left--; left == 0 {
							finished++
						}
					})
				}
				w.run(func() bool { return finished == 20 })
				if turns != 20*7 || kept*100 < turns*80 {
					t.Errorf("seed %d: %d of %d turns went where the turn before went, want 80 %% of 140", seed, kept, turns)
				}
			}
		})
	}
}
