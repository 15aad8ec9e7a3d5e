package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Two hundred requests come in the same instant to a server that is given five at
// a time. It never has six, and it has all five: nobody is refused.
func TestALimitHoldsInABurst(t *testing.T) {
	const most, n = 5, 200
	g, a := single(t, most, "")
	full := make(chan struct{})
	var once sync.Once
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		a.mu.Lock()
		if a.open == most {
			once.Do(func() { close(full) })
		}
		a.mu.Unlock()
		if !waits(r, full) { // the first five wait for each other
			return
		}
		time.Sleep(10 * time.Millisecond) // the engine's time, in which a sixth could come
		answer(w, r, body)
	})
	if served := burst(g, n, distinct); served["a"] != n {
		t.Errorf("served %v, want all %d", served, n)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.maxOpen != most {
		t.Errorf("the server had %d requests at once, want %d", a.maxOpen, most)
	}
}

// A client that asks before it sends its body, at a gateway where as many wait as
// may, gets its refusal in place of "go on", and need not send it.
func TestExpectContinueAtAFullQueue(t *testing.T) {
	g, a := single(t, 1, "queue 1\n")
	s := stepping(t, a)
	served := []<-chan reply{g.asks(t, http.DefaultClient, "runs")}
	s.arrived()
	served = append(served, g.queues(t, http.DefaultClient, []string{"waits"})...)

	c := g.dial(t)
	in := bufio.NewReader(c)
	io.WriteString(c, g.head("POST", chatPath, "Content-Type: application/json", "Content-Length: 1000", "Expect: 100-continue"))
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if r := read(t, res); r.status != http.StatusTooManyRequests || !strings.Contains(r.body, `"queue_full"`) || r.header.Get("Retry-After") == "" {
		t.Errorf("status %d: %s; want 429 and no 100 before it", r.status, r.body)
	}
	if !res.Close {
		t.Error("the connection is held open, though nobody can tell whether the body comes")
	}
	if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
		t.Errorf("then came %q, %v; want the end", rest, err)
	}
	s.serve(1)
	s.answer()
	allServed(t, served)
	if n := a.count(); n != 2 {
		t.Errorf("the server got %d requests, want the 2 that were taken", n)
	}

	// With room to wait it is told to go on, and waits with its body.
	s = stepping(t, a)
	served = []<-chan reply{g.asks(t, http.DefaultClient, "runs")}
	s.arrived()
	body := chat(false, "", "asked first")
	c = g.dial(t)
	in = bufio.NewReader(c)
	io.WriteString(c, g.head("POST", chatPath, "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body)), "Expect: 100-continue"))
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("read %q, %v; want 100 Continue", line, err)
	}
	in.ReadString('\n')
	io.WriteString(c, body)
	eventually(t, "it to wait", func() bool { return g.queued() == 1 })
	if order := s.serve(1); order[0] != "asked first" {
		t.Errorf("the server got %q", order[0])
	}
	s.answer()
	if res, err = http.ReadResponse(in, nil); err != nil {
		t.Fatal(err)
	}
	if r := read(t, res); r.status != http.StatusOK {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	allServed(t, served)
}

// Nobody waits longer than the client will, or than the configuration says: the
// answer is 429 by then, not when the server is free, and no server hears of the
// request.
func TestNobodyWaitsPastTheirTime(t *testing.T) {
	const short, long = 100 * time.Millisecond, 400 * time.Millisecond
	g, a := single(t, 1, fmt.Sprintf("deadline_header X-Deadline\nqueue {\nmax_wait %v\n}\nclass hurried {\nexpression {http.request.header.X-Hurried} == \"yes\"\ndeadline %v\n}\nclass patient {\n}\n", long, short))
	s := stepping(t, a)
	runs := g.asks(t, http.DefaultClient, "runs")
	s.arrived()
	for _, tc := range []struct {
		name        string
		header      []string
		code        string
		least, most time.Duration
	}{
		{"the queue's own bound", nil, "queue_timeout", long, long},
		{"the client says seconds", []string{"X-Deadline", "0.1"}, "deadline", 0, short},
		{"the client says a duration", []string{"X-Deadline", "100ms"}, "deadline", 0, short},
		{"more than the queue's bound", []string{"X-Deadline", "1h"}, "queue_timeout", long, long},
		{"nonsense", []string{"X-Deadline", "soon"}, "queue_timeout", long, long},
		{"its class says so", []string{"X-Hurried", "yes"}, "deadline", 0, short},
		{"its class, whatever the client says", []string{"X-Hurried", "yes", "X-Deadline", "10"}, "deadline", 0, short},
	} {
		began := time.Now()
		r := arrives(t, "an answer", g.asks(t, http.DefaultClient, tc.name, tc.header...))
		took := time.Since(began)
		if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, fmt.Sprintf("%q", tc.code)) || r.header.Get("Retry-After") == "" {
			t.Errorf("%s: status %d: %s; want 429 %s", tc.name, r.status, r.body, tc.code)
		}
		if took < tc.least || took > tc.most+within {
			t.Errorf("%s: answered after %v, want between %v and %v on a quiet machine", tc.name, took, tc.least, tc.most)
		}
	}
	if n := a.count(); n != 1 {
		t.Errorf("the server got %d requests, want the one that it works at", n)
	}
	s.answer()
	allServed(t, []<-chan reply{runs})
}
