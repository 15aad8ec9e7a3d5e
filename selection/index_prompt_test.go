package selection

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// All that a request with a prompt of 400 KB asks of the index, which is full: who
// holds it, that it is sent and, some other requests later, that it is computed. New
// is a prompt of which nobody has any, warm one that was computed a moment ago. What
// is told is the median, since a machine at work is slow now and then.
func BenchmarkIndexLongPrompt(b *testing.B) {
	const (
		bytes = 400 << 10
		open  = 16 // requests at once
	)
	ix, now := indexWith(DefaultIndexBytes), time.Unix(1_800_000_000, 0)
	for i := range 100_000 {
		ix.learn(chainOf(uint64(i)<<20, 16), uint32(i%64+1), llmlb.Unknown, now, true)
	}
	for number, tc := range []struct {
		name string
		room float64 // tokens
		warm bool
	}{{"new", llmlb.Unknown, false}, {"warm", llmlb.Unknown, true}, {"new with a room", 1e6, false}, {"warm with a room", 1e6, true}} {
		b.Run(tc.name, func(b *testing.B) {
			var calls [open]*llmlb.Call
			for i := range calls {
				calls[i] = llmlb.NewCall(llmlb.NewPool(""), new(llmlb.Settings), now)
				calls[i].Features = llmlb.Features{PromptBytes: bytes, InputTokens: bytes / 4, MaxOutputTokens: 512}
				calls[i].ExpectedOutput()
				calls[i].Blocks = chainOf(uint64(open*number+i+1)<<40, llmlb.BlockCount(bytes))
			}
			var dst [holdersMax]holder
			var took [4][]time.Duration
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now = now.Add(5 * time.Millisecond)
				c := calls[i%open]
				begun := time.Now()
				c.SawWhole(now)
				computed := time.Since(begun)
				if !tc.warm {
					for i := range c.Blocks {
						c.Blocks[i] = mix(c.Blocks[i])
					}
				}
				begun = time.Now()
				ix.lookup(c.Blocks, now, dst[:0])
				looked := time.Since(begun)
				kept{cache: uint32(i%64 + 1), room: tc.room}.remember(c, ix, now)
				sent := time.Since(begun) - looked
				for i, d := range [...]time.Duration{looked, sent, computed, looked + sent + computed} {
					took[i] = append(took[i], d)
				}
			}
			for i, what := range [...]string{"lookup-µs", "sent-µs", "computed-µs", "all-µs"} {
				slices.Sort(took[i])
				b.ReportMetric(float64(took[i][len(took[i])/2])/1000, what)
			}
		})
	}
}
