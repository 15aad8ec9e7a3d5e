package admission

import (
	"fmt"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// Queue is how requests wait.
type Queue struct {
	// How many requests may wait at once, of a request's class and those before
	// it. 0 is none, which is the same as Off. Default: 1024.
	Calls *int `json:"calls,omitempty"`

	// No queue, and no holding back: a request goes to a server at once, however
	// much that server has to do, or is answered at once. Default: false.
	Off bool `json:"off,omitempty"`

	// How long after its arrival a request may still wait. One that would have
	// to wait longer is answered at once. 0 is not at all. Default: 30s.
	MaxWait *caddy.Duration `json:"max_wait,omitempty"`

	// How many bytes of request bodies may be held at once, those of waiting
	// requests and of those that a server has not begun to answer. Default: 256
	// MiB, or max_body if that is more.
	MaxBytes int64 `json:"max_bytes,omitempty"`

	// How many tokens may wait at once, of prompts and of the answers that are
	// expected, counted as Calls are. Default: 0, no limit.
	MaxTokens int `json:"max_tokens,omitempty"`
}

const (
	defaultCalls    = 1024
	maxCalls        = 1_000_000 // each holds a connection
	defaultMaxWait  = 30 * time.Second
	defaultMaxBytes = 256 << 20
	maxMaxBytes     = 1 << 40
	maxMaxTokens    = 1_000_000_000_000
)

func (h *Handler) checkQueue() error {
	q := h.Queue
	if q == nil {
		return nil
	}
	switch {
	case q.Calls != nil && (*q.Calls < 0 || *q.Calls > maxCalls):
		return fmt.Errorf("queue: calls: %d is out of range; have 0 to %d", *q.Calls, maxCalls)
	case q.MaxWait != nil && *q.MaxWait < 0:
		return fmt.Errorf("queue: max_wait: %v is negative", time.Duration(*q.MaxWait))
	case q.MaxBytes < 0 || q.MaxBytes > maxMaxBytes:
		return fmt.Errorf("queue: max_bytes: %d is out of range; have 1 to %d bytes", q.MaxBytes, int64(maxMaxBytes))
	case q.MaxBytes != 0 && q.MaxBytes < h.maxBody():
		return fmt.Errorf("queue: max_bytes: %d is under max_body, %d: the longest bodies would never be taken", q.MaxBytes, h.maxBody())
	case q.MaxTokens < 0 || q.MaxTokens > maxMaxTokens:
		return fmt.Errorf("queue: max_tokens: %d is out of range; have 1 to %d", q.MaxTokens, int64(maxMaxTokens))
	case !q.Off:
		return nil
	case q.Calls != nil:
		return fmt.Errorf("queue: 'off' and calls contradict each other")
	case q.MaxWait != nil:
		return fmt.Errorf("queue: 'off' and max_wait contradict each other: nothing waits")
	case q.MaxTokens != 0:
		return fmt.Errorf("queue: 'off' and max_tokens contradict each other: nothing waits")
	}
	return nil
}

// queueOff reports whether requests are placed at once, however busy the servers
// are.
func (h *Handler) queueOff() bool { return h.Queue != nil && h.Queue.Off }

// calls is how many may wait.
func (h *Handler) calls() int {
	switch {
	case h.queueOff():
		return 0
	case h.Queue == nil || h.Queue.Calls == nil:
		return defaultCalls
	}
	return *h.Queue.Calls
}

// maxWait is how long a request may wait if its class says nothing else.
func (h *Handler) maxWait() time.Duration {
	switch {
	case h.calls() == 0:
		return 0
	case h.Queue == nil || h.Queue.MaxWait == nil:
		return defaultMaxWait
	}
	return time.Duration(*h.Queue.MaxWait)
}

// maxBytes is how many bytes of bodies may be held. The longest body that is
// taken must fit.
func (h *Handler) maxBytes() int64 {
	if h.Queue == nil || h.Queue.MaxBytes == 0 {
		return max(defaultMaxBytes, h.maxBody())
	}
	return h.Queue.MaxBytes
}

// queues reports whether any request may wait. Where none may, nothing is held
// back from busy endpoints either: what cannot wait here waits there.
func (h *Handler) queues() bool {
	return h.calls() > 0 && slices.ContainsFunc(h.classes, func(c *queue.Class) bool { return c.MaxWait > 0 })
}

// maxTokens is how many tokens may wait, 0 for any number.
func (h *Handler) maxTokens() int {
	if h.Queue == nil {
		return 0
	}
	return h.Queue.MaxTokens
}
