package admission

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// Where a policy of Caddy's chooses, one place is given at a time. A request that
// arrives when a summary is owed that place gets the next one, and does not wait
// for something to happen at a server that has room.
func TestANewcomerWhoseTurnWasGivenAwayIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := llmlb.NewPool("test")
		p.Lock()
		p.Sight("10.0.0.1:8000", time.Now())
		p.Unlock()
		tu := &turns{pool: p}
		var room atomic.Bool // the turns ask from a goroutine of their own
		tu.queue = queue.New(queue.World{
			Place: func(*llmlb.Call, time.Time) queue.Placement {
				if !room.Load() {
					return queue.Placement{Answer: queue.Busy}
				}
				return queue.Placement{Answer: queue.Placed, Unbooked: true}
			},
			Room: func(*llmlb.Endpoint, time.Time) (bool, bool) { return true, true },
		})
		edits, summaries := &queue.Class{Name: "edits"}, &queue.Class{Name: "summaries", Rank: 1, Share: 0.5}
		push := func(c *queue.Class, tokens int) (placed chan struct{}) {
			placed = make(chan struct{})
			call := &llmlb.Call{Features: llmlb.Features{InputTokens: tokens, Encodes: true}}
			tu.queue.Push(&queue.Waiter{Call: call, Class: c, Ready: func() { close(placed) }}, queue.Bounds{Calls: 9}, time.Now())
			tu.arm(false)
			return placed
		}
		summary := push(summaries, 10)
		room.Store(true)
		first := push(edits, 1000) // by which the summary is owed its share
		<-first
		room.Store(false)
		time.Sleep(10 * soon) // whatever was to be asked has been
		room.Store(true)
		second := push(edits, 1000)
		began := time.Now()
		<-summary
		select {
		case <-second:
		case <-time.After(time.Minute):
		}
		if d := time.Since(began); d > 10*soon {
			t.Errorf("it waited %v", d)
		}
	})
}
