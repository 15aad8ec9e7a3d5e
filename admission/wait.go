package admission

import (
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxWaiters bounds how many Calls of one handler wait at once. Each holds its
// body and a connection.
const maxWaiters = 1024

// room is where Calls wait.
type room struct{ waiting atomic.Int64 }

func (r *room) enter() bool {
	if r.waiting.Add(1) <= maxWaiters {
		return true
	}
	r.waiting.Add(-1)
	return false
}

func (r *room) leave() { r.waiting.Add(-1) }

// waiting is what came of a wait.
type waiting uint8

const (
	hopeless waiting = iota // it would be too long, or there is no room
	left                    // the client did not wait
	waited
)

// refusal is what a Call is told that has waited in vain.
func (w waiting) refusal(c *llmlb.Call) *refusal {
	if w == left {
		return clientGone()
	}
	return overloaded(time.Until(c.RetryAt))
}

// wait waits until the first of the endpoints that have too much to do takes
// work again, if the Call may have another attempt and that moment comes in its
// time. How often it waits does not matter: its time counts from its arrival.
func (x *exchange) wait() waiting {
	c := x.call
	at := c.RetryAt
	if !x.grants || at.IsZero() || !c.AttemptsLeft() || at.After(c.Arrival.Add(x.handler.maxWait())) {
		return hopeless
	}
	if !x.handler.room.enter() {
		return hopeless
	}
	defer x.handler.room.leave()
	began := time.Now()
	defer c.Pool.Waits()()
	defer func() { x.waited += time.Since(began) }()
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-x.request.Context().Done():
		return left
	case <-timer.C:
	}
	if x.gone() {
		return left
	}
	if k := c.Kept; k != nil {
		k.RetryAfter = 0 // the endpoints will say anew
	}
	return waited
}

// gone reports whether the client has left.
func (x *exchange) gone() bool { return x.request.Context().Err() != nil }
