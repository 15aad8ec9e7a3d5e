package transport

import (
	"context"
	"errors"
	"net/http"
	"strings"
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
		"Fri, 31 Dec 9999 23:59:59 GMT": maxRetryAfterSeconds * time.Second,
		"Sun, 01 Mar":                   0,
	} {
		if got := retryAfter(http.Header{"Retry-After": {value}}, now); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
}

// A 429 may be about the key that a client has of its own. That client is told so;
// others must not be kept waiting for it.
func TestTooManyRequestsOfOneKeyKeepOthersAwayForAMoment(t *testing.T) {
	for _, test := range []struct {
		name, line, key, upstream string
		pause                     time.Duration
	}{
		{"429 to a client's own key", "429 Slow", "Bearer mallory", "", keyedPause},
		{"429 to a client's own key of another kind", "429 Slow", "key mallory", "", keyedPause},
		{"429 where the gateway has the key", "429 Slow", "Bearer mallory", "the gateway's", 20 * time.Second},
		{"429 without a key", "429 Slow", "", "", 20 * time.Second},
		{"503", "503 Full", "Bearer mallory", "", 20 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
				w.settings.Scrape.Bearer = test.upstream
				w.against(&engine{pieces: []said{{0, status(test.line, "Retry-After: 20\r\n", full)}}, hangup: true})
				c := w.answering()
				req := w.request(t.Context(), c)
				req.Header.Set("Authorization", test.key)
				if key, ok := strings.CutPrefix(test.key, "key "); ok {
					req.Header.Del("Authorization")
					req.Header.Set("X-Api-Key", key)
				}
				if test.key == "" {
					req.Header.Del("Authorization")
				}
				_, _ = w.tr.RoundTrip(req)
				w.pool.Lock()
				until, _ := w.endpoint.Overloaded(time.Now())
				w.pool.Unlock()
				if got := time.Until(until); got != test.pause {
					t.Errorf("others are kept away for %v, want %v", got, test.pause)
				}
				if c.Kept == nil || c.Kept.RetryAfter != 20*time.Second {
					t.Errorf("the client is told %+v, want what the server asked for", c.Kept)
				}
			})
		})
	}
}

// What an engine cannot do, and what it blames the client for within a 200, is no
// failure of its own: it passes, and nobody else is asked.
func TestWhatIsNoFailureOfTheServer(t *testing.T) {
	const tooLong = `{"error":{"message":"the prompt is too long","type":"BadRequestError","param":null,"code":400}}`
	for _, test := range []struct {
		name, answer string
		status       int
		body         string
	}{
		{"501", status("501 No", "", boom), 501, boom},
		{"400 in a 200", sseHead + events(tooLong, done), 400, tooLong},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
				w.against(&engine{pieces: []said{{0, test.answer}}, hangup: true})
				c := w.answering()
				resp, body, err := w.do(c)
				if err != nil || resp.StatusCode != test.status || body != test.body || c.Outcome != llmlb.Served || c.Excluded(w.endpoint) {
					t.Errorf("%v, %q, %v", err, body, c.Outcome)
				}
				w.calm()
			})
		})
	}
}

// A client that leaves takes nothing from the retry budget, which is everybody's.
func TestClientsThatLeaveSpendNoRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		e := &engine{}
		w.against(e)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := w.tr.RoundTrip(w.request(ctx, w.answering()))
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
			<-e.closed
		}
		if n := w.pool.RetriesRefused(); n != 0 {
			t.Errorf("%d retries were refused to clients that had left", n)
		}
	})
}

// Each server that stays silent gives the next one more time: perhaps the request
// is one that takes long.
func TestTheNextServerHasMoreTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, provisioned(t, `{}`), "10.0.0.1:8000")
		e := &engine{}
		w.against(e)
		c := w.answering()
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second} {
			c.Attempts = i + 1
			if c.Lease == nil {
				w.pool.Lock()
				c.Lease = w.pool.Reserve(w.endpoint, time.Now(), llmlb.Work{Uncached: 10, Output: 10})
				w.pool.Unlock()
			}
			began := time.Now()
			_, _, _ = w.do(c)
			if got := time.Since(began); got != want {
				t.Errorf("attempt %d was given %v, want %v", i+1, got, want)
			}
			<-e.closed
		}
	})
}
