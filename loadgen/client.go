package loadgen

import (
	"context"
	"math/rand/v2"
	"time"
)

// client is one of a closed loop.
type client struct {
	runner *runner
	class  int
	tenant int // from 0
	chance *rand.Rand
}

// afterFailure is the pause after a request that failed, besides thinking: a
// person or a program that is refused does not ask a thousand times a second.
const afterFailure = 250 * time.Millisecond

// converse has one conversation, turn by turn. A turn that fails ends it. It
// reports whether there is to be another.
func (c *client) converse(ctx context.Context) bool {
	r := c.runner
	var said conversation
	spoken := 0 // tokens said before, as planned
	for turn := range r.s.Classes[c.class].Turns {
		if ctx.Err() != nil || time.Since(r.begun) >= time.Duration(r.s.Duration) || r.taken.Add(1) > int64(r.s.Requests) {
			return false
		}
		j := r.plan.draw(c.class, c.tenant, c.chance)
		if turn == 0 {
			said = r.plan.begin(&j)
		} else {
			j.prefix = -1 // it stands at the beginning
		}
		said = append(said, message{"user", j.own()})
		body := r.s.encode(said, j.output)
		x := r.exchange(&j, time.Now())
		x.sample.input += spoken
		x.keep = turn+1 < r.s.Classes[c.class].Turns
		x.do(ctx, body)
		spoken = x.sample.input + x.sample.output
		r.record.end(&x.sample)
		if x.sample.outcome != OK {
			return c.think(ctx, afterFailure)
		}
		if x.keep {
			said = append(said, message{"assistant", x.text.text.String()})
		}
		if !c.think(ctx, 0) {
			return false
		}
	}
	return true
}

// think waits as long as somebody reads and types, and no longer than requests
// are begun.
func (c *client) think(ctx context.Context, more time.Duration) bool {
	s := c.runner.s
	d := time.Duration(c.chance.ExpFloat64()*float64(s.Think)) + more
	end := time.Duration(s.Duration) - time.Since(c.runner.begun)
	return sleep(ctx, min(d, end)) && d < end
}
