package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const fullWords = `{"error":{"message":"The request queue is full.","type":"overloaded"}}`

// A server that says ten times that its queue is full is well. Its clients learn
// when to come back, and the next request waits for that moment and no longer:
// nothing has taken the server out.
func TestOverloadIsNoFault(t *testing.T) {
	g, a := alone(t, "retries 0\ncircuit {\nfailures 3\nrate 20%\nopen_for 1h\n}\n")
	var all sync.WaitGroup
	arrived, go10 := 0, make(chan struct{})
	var mu sync.Mutex
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		mu.Lock()
		if arrived++; arrived == 10 {
			close(go10)
		}
		mu.Unlock()
		<-go10 // so that none of the ten waits for the others' pause
		status(http.StatusServiceUnavailable, "1", fullWords)(w, r, body)
	})
	for i := range 10 {
		all.Go(func() {
			r := g.post(distinct(i))
			if r.status != http.StatusServiceUnavailable || r.body != fullWords || r.header.Get("Retry-After") != "1" {
				t.Errorf("status %d, Retry-After %q: %s", r.status, r.header.Get("Retry-After"), r.body)
			}
		})
	}
	all.Wait()
	g.idle(t)
	row := g.endpoint("a")
	if row.Circuit != "closed" || row.State == "down" {
		t.Errorf("the server is %s, circuit %s (%s)", row.State, row.Circuit, row.Reason)
	}
	if ended := g.attempts("a"); ended["overloaded"] != 10 || total(ended) != 10 {
		t.Errorf("attempts ended %v, want 10 overloaded", ended)
	}

	a.answers(answer)
	began := time.Now()
	if r := g.post(distinct(10)); r.status != http.StatusOK {
		t.Errorf("the next request: status %d: %s", r.status, r.body)
	}
	if took := time.Since(began); took > time.Second+within {
		t.Errorf("it took %v, want about the second that the server had asked for", took)
	}
	if n := a.count(); n != 11 {
		t.Errorf("the server got %d requests, want 11", n)
	}
}

// With nobody else to ask, a request waits out a short overload by itself: the
// client sees an answer and nothing of it.
func TestAShortOverloadIsWaitedOut(t *testing.T) {
	for _, mode := range failovers {
		t.Run(mode.name, func(t *testing.T) {
			g, a := alone(t, mode.options)
			first := make(chan time.Time, 1)
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				select {
				case first <- time.Now():
					status(http.StatusServiceUnavailable, "1", fullWords)(w, r, body)
				default:
					answer(w, r, body)
				}
			})
			r := g.post(chat(true, "", "hi"))
			if r.status != http.StatusOK || r.body != streamed() {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			if waited := time.Since(<-first); waited < time.Second {
				t.Errorf("it was sent again after %v, before the second was over that the server had asked for", waited)
			}
			if n := a.count(); n != 2 {
				t.Errorf("the server got %d requests, want 2", n)
			}
		})
	}
}

// One server refuses work for a while. The other takes it all, and the first
// is left alone meanwhile. When that one refuses too, the client gets its
// words, and when to come back.
func TestAnotherServerTakesWhatOneRefuses(t *testing.T) {
	for _, mode := range failovers {
		t.Run(mode.name, func(t *testing.T) {
			g, a, b := steered(t, mode.options+"queue {\nmax_wait 0\n}\n")
			a.answers(status(http.StatusServiceUnavailable, "20", fullWords))
			for i := range 5 {
				if r := g.post(distinct(i)); r.status != http.StatusOK || r.endpoint() != "b" {
					t.Errorf("request %d: status %d from %q: %s", i, r.status, r.endpoint(), r.body)
				}
			}
			if n := a.count(); n != 1 {
				t.Errorf("the server that refuses got %d requests, want 1", n)
			}
			row := g.endpoint("a")
			if row.State != "overloaded" || row.Circuit != "closed" {
				t.Errorf("it is %s, circuit %s; want overloaded, closed", row.State, row.Circuit)
			}

			// Both refuse.
			const words = `{"object":"error","message":"no room"}`
			b.answers(status(http.StatusTooManyRequests, "7", words))
			for i := range 2 { // the second finds both pausing
				r := g.post(distinct(100 + i))
				if r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if after, _ := strconv.Atoi(r.header.Get("Retry-After")); after < 1 || after > 7 {
					t.Errorf("Retry-After %q, want 7 at most", r.header.Get("Retry-After"))
				}
				if i == 0 && r.body != words {
					t.Errorf("the client got %q, want what the server said", r.body)
				}
				discreet(t, r, a, b)
			}
		})
	}
}

// Of two servers that refuse, one asks for longer. The client may come back when
// the first of them takes work again.
func TestTheClientIsToldTheSoonerMoment(t *testing.T) {
	for _, c := range []struct{ a, b string }{{"4", "28"}, {"28", "4"}} {
		for _, retries := range []int{1, 2} { // with and without an attempt left
			t.Run(fmt.Sprintf("%s and %s, %d retries", c.a, c.b, retries), func(t *testing.T) {
				g, a, b := steered(t, fmt.Sprintf("retries %d\nqueue {\nmax_wait 0\n}\n", retries))
				a.answers(status(http.StatusServiceUnavailable, c.a, fullWords))
				b.answers(status(http.StatusServiceUnavailable, c.b, fullWords))
				r := g.post(distinct(1))
				after, _ := strconv.Atoi(r.header.Get("Retry-After"))
				if r.status != http.StatusServiceUnavailable || r.body != fullWords || after < 1 || after > 4 {
					t.Errorf("status %d, Retry-After %q: %s; want 503, 4 at most, the servers' words", r.status, r.header.Get("Retry-After"), r.body)
				}
				if a.count() != 1 || b.count() != 1 {
					t.Errorf("the servers got %d and %d requests", a.count(), b.count())
				}
			})
		}
	}
}

// A pause never becomes shorter by a later answer, and it does become longer. A
// request that was on its way when the first refusal came brings another one.
func TestTheLongerRetryAfterWins(t *testing.T) {
	for _, c := range []struct{ first, second string }{{"1", "5"}, {"5", "1"}} {
		t.Run(c.first+" then "+c.second, func(t *testing.T) {
			g, a, _ := steered(t, "")
			release, held := make(chan struct{}), make(chan struct{})
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				if strings.Contains(string(body), "slow") {
					close(held)
					<-release
					status(http.StatusTooManyRequests, c.second, fullWords)(w, r, body)
					return
				}
				status(http.StatusTooManyRequests, c.first, fullWords)(w, r, body)
			})
			slow := make(chan reply, 1)
			go func() {
				r, err := g.ask(http.DefaultClient, chat(false, "", "slow "+prose("one", 600)))
				if err != nil {
					t.Error(err)
				}
				slow <- r
			}()
			<-held
			began := time.Now()
			if r := g.post(distinct(1)); r.status != http.StatusOK || r.endpoint() != "b" {
				t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
			}
			close(release)
			if r := <-slow; r.status != http.StatusOK || r.endpoint() != "b" {
				t.Errorf("status %d from %q: %s", r.status, r.endpoint(), r.body)
			}
			row := g.endpoint("a")
			if pause := row.RetryAt.Sub(began); pause < 5*time.Second || pause > 5*time.Second+within {
				t.Errorf("the pause ends %v after the first refusal, want 5 s", pause)
			}
			// Past the shorter one.
			eventually(t, "the shorter pause to be over", func() bool { return time.Since(began) > 1200*time.Millisecond })
			for i := range 10 {
				r := g.post(distinct(10 + i))
				if time.Now().Before(row.RetryAt) && r.endpoint() != "b" {
					t.Errorf("request %d went to %q during the longer pause", i, r.endpoint())
				}
			}
			if time.Now().Before(row.RetryAt) {
				if n := a.count(); n != 2 {
					t.Errorf("the server that asked for a pause got %d requests, want 2", n)
				}
			}
		})
	}
}

// What no server can mean counts as nothing, what it cannot mean so long is held
// to half a minute, and a date is as good as a number.
func TestAbsurdRetryAfter(t *testing.T) {
	const short, long = 250 * time.Millisecond, 30 * time.Second // without any, and at most
	year := func(n int) string { return time.Now().AddDate(n, 0, 0).UTC().Format(http.TimeFormat) }
	for _, c := range []struct {
		name, says  string
		least, most time.Duration
	}{
		{"none", "", short, short},
		{"negative", "-1", short, short},
		{"words", "in a minute or so", short, short},
		{"date of last year", year(-1), short, short},
		{"date", "", 6 * time.Second, 8 * time.Second},
		{"days", "999999", long, long},
		{"date of next year", year(1), long, long},
		{"more than a number holds", strings.Repeat("9", 400), short, long},
	} {
		t.Run(c.name, func(t *testing.T) {
			g, a, _ := steered(t, "")
			said := make(chan time.Time, 1)
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				now, says := time.Now(), c.says
				if c.name == "date" {
					says = now.Add(8 * time.Second).UTC().Format(http.TimeFormat)
				}
				status(http.StatusServiceUnavailable, says, fullWords)(w, r, body)
				said <- now
			})
			r := g.post(distinct(1))
			if r.status != http.StatusOK || r.endpoint() != "b" {
				t.Fatalf("status %d from %q: %s", r.status, r.endpoint(), r.body)
			}
			at := <-said
			row := g.endpoint("a")
			if row.State != "overloaded" && time.Since(at) >= c.least {
				return // looked at too late, on a machine that has other things to do
			}
			pause := row.RetryAt.Sub(at)
			if row.State != "overloaded" || pause < c.least || pause > c.most+within/2 {
				t.Errorf("it is %s and gets nothing for %v, want overloaded for %v to %v", row.State, pause, c.least, c.most)
			}
		})
	}
}

// One server is gone, the other at its limit, and every request may be tried six
// times. That makes no storm: the one that is gone is soon left alone, whether
// requests wait for the other or are refused.
func TestRetriesDoNotDoubleAnOutage(t *testing.T) {
	for name, queue := range map[string]string{"waiting": "", "refused": "\nqueue {\nmax_wait 0\n}"} {
		t.Run(name, func(t *testing.T) {
			const n = 100
			g, a, b := optioned(t, "retries 5"+queue, "", "max_concurrent 1")
			onlyFree(a, a, b)
			open := gate(b)
			defer open()
			a.goDown()
			// The place at b is taken.
			finish := holdStream(g, chat(true, "", prose("held", 600)))
			before := total(g.attempts("a"))
			var all sync.WaitGroup
			limit := make(chan struct{}, 8)
			if queue == "" {
				limit = make(chan struct{}, n)
			}
			for i := range n {
				limit <- struct{}{}
				all.Go(func() {
					defer func() { <-limit }()
					r := g.post(distinct(i))
					switch {
					case queue == "" && r.status != http.StatusOK:
						t.Errorf("status %d of one that has waited: %s", r.status, r.body)
					case queue != "" && r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable && r.status != http.StatusBadGateway:
						t.Errorf("status %d: %s", r.status, r.body)
					}
					if queue != "" {
						discreet(t, r, a, b)
					}
				})
			}
			if queue == "" {
				eventually(t, "all of them to wait", func() bool { return g.queued() == n })
			} else {
				all.Wait()
			}
			ended := g.attempts("a")
			t.Logf("attempts at the server that is gone: %v", ended)
			// Eight at a time cannot all go there before the first refusals are known.
			// A hundred at once can, on a machine that has no time for them.
			if n := total(ended) - before; queue != "" && n > 20 {
				t.Errorf("%d of 100 requests were tried at the server that is gone", n)
			}
			if n := total(ended) + total(g.attempts("b")); n >= 150 {
				t.Errorf("%d attempts for 100 requests", n)
			}
			if n := b.count(); n != 1 {
				t.Errorf("the server at its limit got %d requests, want the one that it holds", n)
			}
			open()
			finish()
			all.Wait()
			g.idle(t)
		})
	}
}
