package e2e

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Three clients want one place, and leave at random moments: in the queue, as
// their turn comes, and when they have it. Whenever the place is free whoever
// waits gets it, over a thousand turns: nobody sleeps through a turn.
func TestNobodySleepsThroughATurn(t *testing.T) {
	g, a := single(t, 1, "")
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if rand.IntN(2) == 0 {
			time.Sleep(rand.N(500 * time.Microsecond)) // the engine's time
		}
		answer(w, r, body)
	})
	var clients sync.WaitGroup
	var turns, left atomic.Int32
	for range 3 {
		client := &http.Client{Transport: &http.Transport{}}
		clients.Go(func() {
			defer client.CloseIdleConnections()
			for range 500 {
				ctx, cancel := context.WithTimeout(t.Context(), within) // less than max_wait
				leaves := rand.IntN(3) == 0
				if leaves {
					time.AfterFunc(rand.N(2*time.Millisecond), cancel)
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(false, "", "hi")))
				if err != nil {
					t.Error(err)
				}
				res, err := client.Do(req)
				switch {
				case err == nil:
					_, _ = io.Copy(io.Discard, res.Body)
					res.Body.Close()
					if turns.Add(1); res.StatusCode != http.StatusOK {
						t.Errorf("status %d", res.StatusCode)
					}
				case !leaves:
					t.Errorf("after %v: %v", within, err)
				default:
					left.Add(1)
				}
				cancel()
				if t.Failed() {
					return
				}
			}
		})
	}
	clients.Wait()
	if turns.Load() < 500 || left.Load() < 50 {
		t.Errorf("%d were served, %d left: the traffic was not what it was meant to be", turns.Load(), left.Load())
	}
	g.idle(t)
	if n := g.queued(); n != 0 {
		t.Errorf("%d requests wait when all is over", n)
	}
}

// A stream and an answer that comes whole run for longer than anything in the
// gateway is remembered unused, and over a reload. They count until they end: a
// third request starts when one of the two has, and not before.
func TestWhatRunsLongIsNotForgotten(t *testing.T) {
	a := newBackend(t)
	site := func(retries int) string {
		return fmt.Sprintf("llm_proxy %s {\nscrape_interval 20ms\nstale_after 40ms\nretries %d\n%sendpoint %s {\nname a\nmax_concurrent 2\n}\n}\n", a.addr(), retries, patient, a.addr())
	}
	g := start(t, site(1))
	openStream, openWhole := make(chan struct{}), make(chan struct{})
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		switch {
		case strings.Contains(string(body), `"stream":true`):
			w.Header().Set("Content-Type", eventStream)
			for i, e := range answerEvents {
				if i == 2 && !waits(r, openStream) {
					return
				}
				send(w, e)
			}
		case question(body) == "whole":
			if waits(r, openWhole) {
				answer(w, r, body)
			}
		default:
			answer(w, r, body)
		}
	})
	finish := holdStream(g, chat(true, "", "stream"))
	whole := g.asks(t, http.DefaultClient, "whole")
	a.await("the two requests", func() bool { return a.open == 2 })
	third := g.queues(t, http.DefaultClient, []string{"third"})

	scrapes := func(n int) {
		a.mu.Lock()
		want := a.scrapes + n
		a.mu.Unlock()
		a.await("scrapes", func() bool { return a.scrapes >= want })
	}
	scrapes(40) // some 0.8 s, twenty times what numbers count for
	if err := g.load(site(2)); err != nil {
		t.Fatal(err)
	}
	scrapes(40)
	if n := a.count(); n != 2 {
		t.Errorf("the server got %d requests while two ran", n)
	}
	if n := g.endpoint("a").Calls; n != 2 {
		t.Errorf("%d calls are counted while two run", n)
	}
	close(openStream)
	finish()
	allServed(t, third)
	close(openWhole)
	allServed(t, []<-chan reply{whole})
	g.idle(t)
}

// A server is down, and fifty requests wait for it. When it comes back they do
// not fall on it all at once: it gets no more at a time than it may, and every one
// is served. Where nothing is said of how many that are, the server says it
// itself, by refusing the others: they come again as it can take them, or have the
// server's own words. Nobody is told that the gateway failed.
func TestAServerThatComesBackIsNotOverrun(t *testing.T) {
	const most, n = 10, 50
	for _, tc := range []struct {
		name, option string
		refusals     int
	}{
		{"a limit that is set", fmt.Sprint("max_concurrent ", most), 0},
		{"a limit that the server has", "", 3 * n},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			site := fmt.Sprintf("llm_proxy %s {\n%s%squeue 100\nendpoint %s {\nname a\n%s\n}\n}\n", a.addr(), fast, patient, a.addr(), tc.option)
			g := start(t, site)
			g.counting(t, site)
			var refused atomic.Int32
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				a.mu.Lock()
				open := a.open
				a.mu.Unlock()
				if open > most {
					refused.Add(1)
					status(http.StatusServiceUnavailable, "", fullWords)(w, r, body)
					return
				}
				time.Sleep(20 * time.Millisecond) // the engine's time
				answer(w, r, body)
			})
			a.goDown()
			eventually(t, "the server to be seen as down", func() bool { return g.endpoint("a").State == "down" })
			var list []<-chan reply
			for i := range n {
				list = append(list, g.asks(t, http.DefaultClient, fmt.Sprint("question ", i)))
			}
			eventually(t, "all of them to be there", func() bool { return g.sum("caddy_http_requests_in_flight") == n })
			a.comeUp()
			back := time.Now()
			served := 0
			for i, done := range list {
				switch r := arrives(t, "an answer", done); {
				case r.status == http.StatusOK:
					served++
				case tc.refusals == 0 || r.status != http.StatusServiceUnavailable || r.body != fullWords:
					t.Errorf("request %d: status %d: %s", i, r.status, r.body)
				}
			}
			if served < most {
				t.Errorf("%d of %d were served", served, n)
			}
			if took := time.Since(back); took > within {
				t.Errorf("they were served %v after the server came back, want a second or two", took)
			}
			if got := int(refused.Load()); got > tc.refusals || a.count() != served+got {
				t.Errorf("the server got %d requests and refused %d, want %d refusals at most", a.count(), got, tc.refusals)
			}
			if row := g.endpoint("a"); row.Circuit != "closed" {
				t.Errorf("the circuit is %s, for what is no fault", row.Circuit)
			}
			g.idle(t)
		})
	}
}
