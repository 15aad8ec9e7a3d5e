package integration

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// crowd is a number of clients that ask at the same time.
type crowd struct {
	answers []*answer
	begun   chan struct{} // one for each stream that has as many tokens as were asked for
	ended   sync.WaitGroup
}

// question is one of so many words, and differs from all others in its first.
func question(n, words int) string {
	list := make([]string, words)
	list[0] = fmt.Sprintf("question%d", n)
	for i := 1; i < words; i++ {
		list[i] = fmt.Sprintf("word%d", i)
	}
	return strings.Join(list, " ")
}

// ask lets n clients ask for answers of so many words each, and notes those that
// have got the first tokens of them.
func (r rig) ask(t *testing.T, n, words, tokens int) *crowd {
	t.Helper()
	c := &crowd{answers: make([]*answer, n), begun: make(chan struct{}, n)}
	for i := range n {
		c.ended.Go(func() {
			c.answers[i] = listen(t.Context(), r.gateway, question(i, words), func(have int) {
				if have == tokens {
					c.begun <- struct{}{}
				}
			})
		})
	}
	return c
}

// await waits until n streams are so far.
func (c *crowd) await(t *testing.T, n int) {
	t.Helper()
	deadline := time.After(limit)
	for i := range n {
		select {
		case <-c.begun:
		case <-deadline:
			t.Fatalf("after %v only %d streams have come as far as %d should", limit, i, n)
		}
	}
}

// tally is what became of a crowd.
type tally struct {
	byA, byB   int // whole
	cutA, cutB int // with tokens, and then broken off
	failed     int // no token at all
	retried    int
}

// shown bounds how many answers of a crowd are complained about one by one.
const shown = 5

// wait waits until every stream has ended, checks what must hold for each, and
// tells what became of all.
func (c *crowd) wait(t *testing.T) tally {
	t.Helper()
	c.ended.Wait() // every request has a limit of its own
	var sum tally
	var wrong int
	for i, a := range c.answers {
		sum.add(a)
		what := a.wrong()
		if what == "" {
			continue
		}
		if wrong++; wrong <= shown {
			t.Errorf("answer %d (endpoint %q, attempts %q, %d tokens) %s", i, a.endpoint, a.attempts, a.tokens, what)
		}
	}
	if wrong > shown {
		t.Errorf("and %d more answers are wrong", wrong-shown)
	}
	t.Logf("\n%8s %12s %12s %8s %8s %8s %8s\n%8d %12d %12d %8d %8d %8d %8d",
		"asked", "served by A", "served by B", "cut at A", "cut at B", "failed", "retried",
		len(c.answers), sum.byA, sum.byB, sum.cutA, sum.cutB, sum.failed, sum.retried)
	return sum
}

func (sum *tally) add(a *answer) {
	switch from := a.from(); {
	case a.whole() && from == "sim-a":
		sum.byA++
	case a.whole() && from == "sim-b":
		sum.byB++
	case a.tokens > 0 && from == "sim-a":
		sum.cutA++
	case a.tokens > 0 && from == "sim-b":
		sum.cutB++
	default:
		sum.failed++
	}
	if a.retried() {
		sum.retried++
	}
}

// rescued checks a crowd that asked while A could not give a token: every answer
// is whole and B's, and some were asked of A before.
func (c *crowd) rescued(t *testing.T) {
	t.Helper()
	sum := c.wait(t)
	if sum.byB != len(c.answers) {
		t.Errorf("%d of %d answers are B's and whole, want all", sum.byB, len(c.answers))
	}
	if sum.retried == 0 {
		t.Error("nothing was asked of A first, so nothing was tested")
	}
}

// severed checks a crowd whose streams had tokens when those from A broke: these
// are cut, all of B's are whole, and nothing was asked again.
func (c *crowd) severed(t *testing.T) {
	t.Helper()
	sum := c.wait(t)
	if sum.cutA == 0 || sum.byB == 0 {
		t.Error("the streams were not on both servers, so not all was tested")
	}
	if sum.byA > 0 || sum.cutB > 0 {
		t.Errorf("%d answers of A look whole and %d of B are cut, want none", sum.byA, sum.cutB)
	}
	if sum.retried > 0 {
		t.Errorf("%d requests were sent again, though all of them had tokens", sum.retried)
	}
}
