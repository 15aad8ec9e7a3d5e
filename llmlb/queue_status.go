package llmlb

import "time"

// QueueStatus is the pool's queue as GET /llmlb/pools shows it.
type QueueStatus struct {
	// Calls is how many requests wait for a server, Tokens how many those are,
	// prompts and expected output.
	Calls  int `json:"calls"`
	Tokens int `json:"tokens"`

	// BodyBytes is how much memory request bodies take, of all requests that a
	// server has not begun to answer.
	BodyBytes int64 `json:"body_bytes"`

	// Saturation is how much the servers have to do by what they can take, 1
	// being all of it.
	Saturation float64 `json:"saturation"`

	// Classes are those that have had requests, by rank.
	Classes []QueueClass `json:"classes,omitempty"`
}

// QueueClass is the part of one class in the queue.
type QueueClass struct {
	Name   string `json:"name"`
	Calls  int    `json:"calls"`
	Tokens int    `json:"tokens"`

	// OldestMillis is how long the request has waited that came first.
	OldestMillis float64 `json:"oldest_ms"`

	// Waits is how long those waited that got their place, in seconds.
	Waits *Histogram `json:"-"`
}

// OnQueueStatus sets the function that tells of the pool's queue. It is called
// without the pool's lock.
func (p *Pool) OnQueueStatus(f func(now time.Time) QueueStatus) { p.onQueue.Store(&f) }

// QueueStatus returns what the pool's queue holds: nothing where there is none.
func (p *Pool) QueueStatus(now time.Time) QueueStatus {
	if f := p.onQueue.Load(); f != nil {
		return (*f)(now)
	}
	return QueueStatus{}
}
