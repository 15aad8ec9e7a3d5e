package e2e

import (
	"bufio"
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Three requests wait behind one that runs. The client of the second leaves: it
// waits no more at once, is logged as one that left, and no server hears of it.
// The others keep their order.
func TestAClientThatLeavesTheQueueIsForgotten(t *testing.T) {
	for version, client := range versions(t) {
		t.Run(version, func(t *testing.T) {
			log := newJournal(t)
			a := newBackend(t)
			g := start(t, log.directive()+singleSite(a, 1, ""))
			s := stepping(t, a)
			served := []<-chan reply{g.asks(t, client, "one")}
			s.arrived()
			served = append(served, g.queues(t, client, []string{"two"})...)

			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(false, "", "three")))
			if err != nil {
				t.Fatal(err)
			}
			left := make(chan error, 1)
			go func() {
				_, err := client.Do(req)
				left <- err
			}()
			eventually(t, "the third request to wait", func() bool { return g.queued() == 2 })
			served = append(served, g.queues(t, client, []string{"four"})...)

			leave()
			if err := arrives(t, "the client to have left", left); err == nil {
				t.Error("the request was answered")
			}
			eventually(t, "it to wait no more", func() bool { return g.queued() == 2 })
			entry := log.entries(t, 1)[0]
			if entry["status"] != 499.0 || entry["llm_outcome"] != "client_gone" || entry["llm_attempts"] != nil && entry["llm_attempts"] != 0.0 {
				t.Errorf("logged as %v, want status 499, client_gone, and no attempt", entry)
			}
			if wait, _ := entry["llm_queue_wait_ms"].(float64); wait <= 0 {
				t.Errorf("logged with a wait of %v ms", entry["llm_queue_wait_ms"])
			}

			order := s.serve(2)
			s.answer()
			allServed(t, served)
			if !slices.Equal(order, []string{"two", "four"}) {
				t.Errorf("the server got one and then %v, want two and four", order)
			}
			if n := a.count(); n != 3 {
				t.Errorf("the server got %d requests, want 3", n)
			}
			g.idle(t)
			if n := g.queued(); n != 0 {
				t.Errorf("%d requests wait when all is over", n)
			}
		})
	}
}

// trickling streams with up to the given time before each event.
func trickling(most time.Duration) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", eventStream)
		for _, e := range answerEvents {
			select {
			case <-time.After(rand.N(most)):
			case <-r.Context().Done():
				return
			}
			send(w, e)
		}
	}
}

// A hundred clients leave one after the other, before their answer's headers or
// within it. None of them keeps the only place: the next client gets it.
func TestAPlaceIsFreeWhenItsClientHasLeft(t *testing.T) {
	g, a := single(t, 1, "")
	a.answers(trickling(5 * time.Millisecond))
	left := 0
	for range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), rand.N(30*time.Millisecond))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		if err != nil {
			left++
		}
		cancel()
	}
	if left < 30 {
		t.Errorf("%d of 100 clients left in time: the traffic was not what it was meant to be", left)
	}
	a.answers(answer)
	began := time.Now()
	if r := g.post(chat(true, "", "hi")); r.status != http.StatusOK || r.body != streamed() {
		t.Errorf("the next request: status %d: %s", r.status, r.body)
	}
	if took := time.Since(began); took > time.Second+within {
		t.Errorf("it took %v", took)
	}
	g.idle(t)
}

// Five hundred clients close their connections within two milliseconds of their
// answer's last event, when a place is given back anyway. It is given back once:
// no count falls below zero, and afterwards two requests run at a time as before.
func TestAPlaceIsGivenBackOnce(t *testing.T) {
	g, a := single(t, 2, "")
	last := len(answerEvents) - 1
	a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", eventStream)
		for i, e := range answerEvents {
			if i == last {
				select {
				case <-time.After(2 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
			send(w, e)
		}
	})
	wrong := make(chan int, 1)
	stop := make(chan struct{})
	var watch, clients sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if n := g.endpoint("a").Calls; n < 0 || n > 2 {
				select {
				case wrong <- n:
				default:
				}
			}
			time.Sleep(time.Millisecond)
		}
	})
	var whole, cut atomic.Int32
	for range 10 {
		client := &http.Client{Transport: &http.Transport{}}
		clients.Go(func() {
			defer client.CloseIdleConnections()
			for range 50 {
				g.leavesAtTheEnd(t, client, &whole, &cut)
			}
		})
	}
	clients.Wait()
	close(stop)
	watch.Wait()
	select {
	case n := <-wrong:
		t.Errorf("%d calls were counted at the server, want 0 to 2", n)
	default:
	}
	if whole.Load() == 0 || cut.Load() == 0 {
		t.Errorf("%d answers were whole, %d cut: the clients left too soon or too late", whole.Load(), cut.Load())
	}
	g.idle(t)
	if n := g.sum("caddy_llmlb_calls_in_flight"); n != 0 {
		t.Errorf("%v calls in flight when all is over", n)
	}

	s := stepping(t, a)
	served := []<-chan reply{g.asks(t, http.DefaultClient, "one"), g.asks(t, http.DefaultClient, "two")}
	s.arrived()
	s.arrived()
	served = append(served, g.queues(t, http.DefaultClient, []string{"three"})...)
	a.mu.Lock()
	open := a.open
	a.mu.Unlock()
	if open != 2 {
		t.Errorf("%d requests run at once afterwards, want 2", open)
	}
	s.serve(1)
	s.answer()
	s.answer()
	allServed(t, served)
}

// leavesAtTheEnd reads a stream up to its last event but one, and leaves up to
// four milliseconds later; the last event comes after two.
func (g *gateway) leavesAtTheEnd(t *testing.T, client *http.Client, whole, cut *atomic.Int32) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Error(err)
		return
	}
	res, err := client.Do(req)
	if err != nil {
		t.Error(err)
		return
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("status %d", res.StatusCode)
	}
	in := bufio.NewReader(res.Body)
	for line := ""; !strings.Contains(line, "finish_reason"); {
		if line, err = in.ReadString('\n'); err != nil {
			t.Errorf("before its end: %v", err)
			return
		}
	}
	timer := time.AfterFunc(rand.N(4*time.Millisecond), cancel)
	defer timer.Stop()
	if _, err := io.Copy(io.Discard, in); err != nil {
		cut.Add(1)
	} else {
		whole.Add(1)
	}
}
