package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// The server at which ten conversations are at home goes away and comes back
// while they go on. None fails; each finds one other server and keeps to it, and
// none goes to and fro afterwards.
func TestConversationsOfAServerThatGoesAndComesBack(t *testing.T) {
	for _, strategy := range []string{"work", "prefix_spill", "weighted"} {
		t.Run(strategy, func(t *testing.T) {
			g, list := trio(t, fast+"strategy "+strategy+"\n")
			for _, b := range list {
				b.answers(telling(unsaid))
			}
			onlyFree(list[0], list...)
			all := make([]*conversation, 10)
			round := func() {
				for _, c := range all {
					if r := c.turn(g); r.status != http.StatusOK {
						t.Fatalf("%s: status %d: %s", c.name, r.status, r.body)
					}
				}
			}
			for i := range all {
				all[i] = &conversation{name: fmt.Sprint("conversation ", i)}
			}
			round()
			allFree(list...)
			round()
			for _, c := range all {
				if c.servers[0] != "a" || c.servers[1] != "a" {
					t.Fatalf("%s is at %v, want a", c.name, c.servers)
				}
			}

			list[0].goDown()
			for range 5 {
				round()
			}
			for _, c := range all {
				for _, server := range c.servers[2:] {
					if server == "a" || server != c.servers[2] {
						t.Errorf("%s went to %v while a was down, want one and the same other", c.name, c.servers[2:])
						break
					}
				}
			}

			list[0].comeUp()
			eventually(t, "the server to be up again", func() bool { return g.endpoint("a").State == "up" })
			for range 8 {
				round()
			}
			for _, c := range all {
				if c.moves() > 2 {
					t.Errorf("%s moved %d times: %v", c.name, c.moves(), c.servers)
				}
			}
		})
	}
}

// Two servers on one host are told apart by their ports. One fails its first
// three requests and is fine from then on: the other is not blamed for it, and
// before long both get the same again.
func TestAServerThatFailedAtTheStartGetsItsShareBack(t *testing.T) {
	g, a, b := pair(t, "failover off\n")
	failures := make(chan struct{}, 3)
	for _, s := range []*backend{a, b} {
		var engine sync.Mutex
		s.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			if s == b {
				select {
				case failures <- struct{}{}:
					w.WriteHeader(http.StatusInternalServerError)
					return
				default:
				}
			}
			engine.Lock()
			time.Sleep(4 * time.Millisecond) // one prompt after the other
			engine.Unlock()
			telling(unsaid)(w, r, body)
		})
	}
	onlyFree(b, a, b)
	for i := range 3 {
		if r := g.post(chat(false, "", fmt.Sprint("early ", i))); r.status != http.StatusInternalServerError || r.endpoint() != "b" {
			t.Fatalf("status %d from %s", r.status, r.endpoint())
		}
	}
	allFree(a, b)
	if rate := g.endpoint("a").ErrorRate; rate != 0 {
		t.Errorf("an error rate of %v at the other port", rate)
	}
	if rate := g.endpoint("b").ErrorRate; rate == 0 {
		t.Error("no error rate at the port that failed")
	}
	// What the failures count for is halved every five seconds.
	began := time.Now()
	for round, even := 0, 0; even < 3; round++ {
		if time.Since(began) > 15*time.Second {
			t.Fatal("the split is not even 15 s after the last failure")
		}
		served := burst(g, 40, func(i int) string { return chat(false, "", prose(fmt.Sprintf("%d of round %d", i, round), 600)) })
		if even++; served["b"] < 15 || served["b"] > 25 {
			even = 0
		}
	}
	t.Logf("an even split %v after the last failure", time.Since(began))
}
