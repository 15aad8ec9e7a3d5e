package selection

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// A server is being restarted and refuses: the request goes to the other, with
// every byte of its body, and only once.
func TestARetryAfterARefusedConnectionSendsTheWholeBody(t *testing.T) {
	for _, tc := range []struct {
		name    string
		bytes   int
		chunked bool
	}{{"2 bytes", 2, false}, {"68 kB", 68_000, false}, {"2 MiB", 2 << 20, false}, {"2 MiB in chunks", 2 << 20, true}} {
		t.Run(tc.name, func(t *testing.T) {
			b := newServer(t, "b")
			url := run(t, []string{refused(t), b.address()}, "engine none", "lb_retries 1")
			for i := range 8 { // whichever of the two is the home
				body := chat(fmt.Sprint(i), tc.bytes)
				var status int
				var by string
				if tc.chunked {
					status, by = post(t, url, chunked(body))
				} else {
					status, by = post(t, url, strings.NewReader(body))
				}
				hits, got, length := b.seen()
				if status != http.StatusOK || by != "b" || hits != i+1 {
					t.Fatalf("request %d: status %d by %q, %d hits", i, status, by, hits)
				}
				if sha256.Sum256(got) != sha256.Sum256([]byte(body)) {
					t.Fatalf("the server got %d of %d bytes", len(got), len(body))
				}
				if length != int64(len(body)) {
					t.Errorf("framed with length %d, want %d", length, len(body))
				}
			}
			eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
		})
	}
}

// A body beyond max_body cannot be repeated. While nothing of it was sent it
// needs no repeating; once some was, it must not be sent cut.
func TestABodyBeyondMaxBodyArrivesCompleteOrNotAtAll(t *testing.T) {
	body := chat("long", 300_000)
	for _, framing := range []string{"length", "chunks"} {
		t.Run(framing, func(t *testing.T) {
			b := newServer(t, "b")
			url := run(t, []string{refused(t), b.address()}, "engine none\nmax_body 100KB", "lb_retries 1")
			for range 6 {
				var status int
				if framing == "length" {
					status, _ = post(t, url, strings.NewReader(body))
				} else {
					status, _ = post(t, url, chunked(body))
				}
				_, got, _ := b.seen()
				if status != http.StatusOK || !bytes.Equal(got, []byte(body)) {
					t.Fatalf("status %d, %d of %d bytes", status, len(got), len(body))
				}
			}
		})
	}
	t.Run("a server that breaks off", func(t *testing.T) {
		a, b := newServer(t, "a"), newServer(t, "b")
		for _, s := range []*server{a, b} {
			s.answer = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
		}
		url := run(t, addressesOf(a, b), "engine none\nmax_body 100KB", "lb_retries 3\nlb_retry_match path /v1/*")
		status, _ := post(t, url, chunked(body))
		if status != http.StatusBadGateway {
			t.Errorf("status %d, want 502", status)
		}
		if a.count()+b.count() != 1 {
			t.Errorf("%d attempts, want 1: the body is gone", a.count()+b.count())
		}
	})
}

// When every server has failed the request, it ends; it is not tried for ever.
func TestNoServerIsTriedTwiceForOneRequest(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	for _, s := range []*server{a, b} {
		s.answer = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	}
	url := run(t, addressesOf(a, b), "engine none", "lb_retries 10\nlb_retry_match path /v1/*")
	status, _ := post(t, url, strings.NewReader(chat("hi", 0)))
	if status != http.StatusBadGateway {
		t.Errorf("status %d, want 502", status)
	}
	if a.count() != 1 || b.count() != 1 {
		t.Errorf("%d and %d attempts, want one each", a.count(), b.count())
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}

// What Caddy counts itself cannot split simultaneous requests; the reservation
// in the choice can.
func TestSimultaneousRequestsSplitEvenly(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	hold := make(chan struct{})
	a.hold, b.hold = hold, hold
	url := run(t, addressesOf(a, b), "engine none", "")
	var done sync.WaitGroup
	for i := range 32 {
		done.Go(func() {
			r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat(fmt.Sprint("distinct ", i), 2000)))
			if err != nil {
				t.Error(err)
				return
			}
			r.Body.Close()
		})
	}
	eventually(t, "all arrived", func() bool { return a.count()+b.count() == 32 })
	if n := openCalls(t); n != 32 {
		t.Errorf("%d calls are booked, want 32", n)
	}
	close(hold)
	done.Wait()
	if n := a.count(); n < 12 || n > 20 {
		t.Errorf("split %d : %d, want 16 ± 4 each", n, b.count())
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}

// A server that has failed is avoided as if it had work to do. Nobody waits for
// that work: a request that goes there all the same gets no more time for it.
func TestFailuresGiveAServerNoMoreTime(t *testing.T) {
	w := newWorld(t, "a:1")
	before := w.grant(prompt(part{"first", 100}))
	want := before.Decision.Predicted
	before.EndAttempt(w.now, llmlb.Served)
	for range 4 {
		w.grant(prompt(part{"failing", 100})).EndAttempt(w.now, llmlb.FirstTokenTimeout)
	}
	if got := w.grant(prompt(part{"after", 100})).Decision.Predicted; got > want+time.Millisecond {
		t.Errorf("predicted %v after four failures, %v before", got, want)
	}
}
