package transport

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What is kept of an overload is when there will be work again, not what the
// server has asked for: engines leave it out, or ask for years.
func TestKeptAnswersSayWhenThereIsWorkAgain(t *testing.T) {
	for asked, want := range map[string]time.Duration{
		"":                       250 * time.Millisecond,
		"Retry-After: 7\r\n":     7 * time.Second,
		"Retry-After: 40\r\n":    llmlb.MaxRetryAfter,
		"Retry-After: -1\r\n":    250 * time.Millisecond,
		"Retry-After: later\r\n": 250 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
			w.against(&engine{pieces: []said{{0, status("503 Full", asked, full)}}, hangup: true})
			c := w.answering()
			_, _, _ = w.do(c)
			if c.Kept == nil || c.Kept.RetryAfter != want {
				t.Errorf("%q: kept is %+v, want %v", asked, c.Kept, want)
			}
		})
	}
}

// Servers say how long to stay away in seconds or with a date. What is neither
// says nothing, and nothing makes us come at once, or never.
func TestRetryAfterIsRead(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"":                              0,
		"0":                             0,
		"7":                             7 * time.Second,
		"-1":                            0,
		"999999":                        999999 * time.Second,
		"99999999999":                   maxRetryAfterSeconds * time.Second,
		"9999999999999999999999":        0,
		"1.5":                           0,
		"soon":                          0,
		"Sun, 01 Mar 2026 12:00:09 GMT": 9 * time.Second,
		"Sun, 01 Mar 2026 11:59:00 GMT": 0,
		"Sun, 01 Mar":                   0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}
