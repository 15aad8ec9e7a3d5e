package status

import (
	"fmt"
	"net/http"
	"time"
)

const (
	// beat is how often a stream says that it lives, so that the page notices a dead
	// connection, and proxies between do not take it for one.
	beat = 15 * time.Second

	// patience is how long a write to a stream may take.
	patience = 10 * time.Second
)

// events answers with the stream that feeds the page.
func (h *Handler) events(w http.ResponseWriter, r *http.Request) error {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // some proxies hold streams back otherwise
	if r.Method == http.MethodHead {
		return nil
	}
	watch := acquireWatch()
	defer releaseWatch()
	s, ok := watch.join(time.Now())
	if !ok {
		w.Header().Set("Retry-After", "10")
		refuse(w, r, http.StatusServiceUnavailable, "too_many_pages", fmt.Sprintf("%d pages are open, which is the most; close one, and this one connects by itself", maxStreams))
		return nil
	}
	defer watch.leave(s)
	h.stream(w, r, watch, s)
	return nil
}

// stream tells the page what changes until it leaves, takes nothing any more, or
// the configuration stops.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request, watch *watch, s *stream) {
	control := http.NewResponseController(w)
	defer func() { _ = control.SetWriteDeadline(time.Time{}) }() // the connection may go on to serve others
	send := func(b []byte) bool {
		// Where a deadline cannot be set, the number of streams is the bound.
		_ = control.SetWriteDeadline(time.Now().Add(patience))
		if _, err := w.Write(b); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	hello := asJSON(map[string]any{
		"boot": boot(), "actions": h.AllowActions, "step": millis(step), "steps": steps,
	})
	b := event([]byte("retry: 1000\n\n"), "hello", hello)
	v := viewer{shows: h.shows, addresses: h.Addresses}
	var done told
	beats := time.NewTicker(beat)
	defer beats.Stop()
	for {
		if len(b) > 0 && !send(b) {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-h.ending:
			return
		case <-s.wake:
			b, done = watch.tell(b[:0], v, done)
		case <-beats.C:
			b = event(b[:0], "beat", []byte("{}"))
		}
	}
}
