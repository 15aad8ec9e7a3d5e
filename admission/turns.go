package admission

import (
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// turns is what all handlers of one pool share: the queue, the limits, and the
// memory for bodies. It lives as long as the pool. It has no goroutine: whoever
// frees something gives the next one its turn, and a timer runs while somebody
// waits for a moment that nobody would notice.
type turns struct {
	pool   *llmlb.Pool
	queue  *queue.Queue
	limits *queue.Limits
	bodies bodies

	mu    sync.Mutex
	timer *time.Timer
	at    time.Time // when it fires
}

const turnsKey = "admission"

func turnsOf(p *llmlb.Pool) *turns {
	return p.Attach(turnsKey, func() any {
		t := &turns{pool: p, limits: queue.NewLimits()}
		t.queue = queue.New(queue.World{
			Place:      place,
			Room:       selection.Room,
			Saturation: func(now time.Time) float64 { return selection.Saturation(p, now) },
		})
		p.OnRoom(t.room)
		p.OnQueueStatus(t.status)
		return t
	}).(*turns)
}

// place tries to place a Call for the queue. Whoever has freed something does that
// for whoever waits: a scorer that panics must fail its Call, and not the one that
// happened to end. So the Call goes on without a reservation, and fails by itself.
func place(c *llmlb.Call, now time.Time) (p queue.Placement) {
	defer func() {
		if r := recover(); r != nil {
			caddy.Log().Named("http.handlers.llm_admission").Error("choosing an endpoint has panicked", zap.Any("panic", r), zap.StackSkip("stack", 1))
			p = queue.Placement{Answer: queue.Placed}
		}
	}()
	v, e, effort := selection.Place(c, now)
	p = queue.Placement{For: e, Effort: effort, Why: uint8(v)}
	switch v {
	case selection.Granted:
		p.Answer = queue.Placed
	case selection.Later:
		p.Answer, p.Unbooked = queue.Placed, true
	case selection.Full, selection.Busy, selection.Overloaded:
		p.Answer = queue.Busy
	default:
		p.Answer = queue.Nowhere
	}
	return p
}

// room offers what the endpoint may have to those who wait.
func (t *turns) room(e *llmlb.Endpoint) {
	if t.queue.Len() == 0 {
		return
	}
	again := t.queue.Freed(e, time.Now())
	t.arm(again)
}

const (
	// soon is when the rest is done of what could not be done under one lock.
	soon = time.Millisecond

	// lull is how long an endpoint with room may go unasked. What makes somebody
	// take it may be noticed nowhere near it: the pool is less saturated, a class
	// is owed more, or the line for another endpoint has become too long.
	lull = 100 * time.Millisecond
)

// arm has the timer fire when an endpoint may have room next by nothing but the
// passing of time, or may be taken though it had room before.
func (t *turns) arm(again bool) {
	if t.queue.Len() == 0 {
		return
	}
	now := time.Now()
	at := t.pool.NextRoom(now)
	if t.queue.Again() || again {
		at = now.Add(soon)
	}
	if at.IsZero() || at.Sub(now) > lull {
		at = now.Add(lull)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.at.After(now) && !t.at.After(at) {
		return
	}
	t.at = at
	if t.timer == nil {
		t.timer = time.AfterFunc(at.Sub(now), t.tick)
		return
	}
	t.timer.Reset(at.Sub(now))
}

func (t *turns) tick() {
	again := false
	for _, e := range t.pool.Endpoints() {
		if t.queue.Len() == 0 {
			return
		}
		again = t.queue.Freed(e, time.Now()) || again
	}
	t.arm(again) // once: it looks at every endpoint
}

// status tells what waits.
func (t *turns) status(now time.Time) llmlb.QueueStatus {
	st := llmlb.QueueStatus{BodyBytes: t.bodies.held.Load(), Saturation: selection.Saturation(t.pool, now)}
	for _, c := range t.queue.Status(now) {
		st.Calls += c.Calls
		st.Tokens += c.Tokens
		st.Classes = append(st.Classes, llmlb.QueueClass{
			Name: c.Name, Calls: c.Calls, Tokens: c.Tokens,
			OldestMillis: millis(c.Oldest), Waits: c.Waits,
		})
	}
	return st
}
