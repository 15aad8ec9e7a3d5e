package admission

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// maxDeadline is longer than any request takes.
const maxDeadline = 24 * time.Hour

func (h *Handler) checkDeadlineHeader() error {
	if h.DeadlineHeader != "" && !httpguts.ValidHeaderFieldName(h.DeadlineHeader) {
		return fmt.Errorf("deadline_header: %q is not the name of a header", h.DeadlineHeader)
	}
	return nil
}

// deadline returns until when the request is worth starting: what its class
// says, or what the client says if that is less. Zero is for ever.
func (h *Handler) deadline(r *http.Request, class *queue.Class, arrival time.Time) time.Time {
	allowed := class.Deadline
	if h.DeadlineHeader != "" {
		said := patience(r.Header.Get(h.DeadlineHeader))
		if said > 0 && (allowed == 0 || said < allowed) {
			allowed = said
		}
	}
	if allowed == 0 {
		return time.Time{}
	}
	return arrival.Add(allowed)
}

// patience reads seconds ("1.5") or a duration ("500ms"), and returns 0 for
// anything else. What is longer than a request can take is nothing said, too.
func patience(text string) time.Duration {
	text = strings.TrimSpace(text)
	if len(text) > 32 {
		return 0
	}
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(seconds) || seconds <= 0 || seconds > maxDeadline.Seconds() {
			return 0
		}
		return max(1, time.Duration(seconds*float64(time.Second)))
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d > maxDeadline {
		return 0
	}
	return d
}
