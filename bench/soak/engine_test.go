//go:build linux

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// fakeEngine is an engine without a process that fails every request, or none.
func fakeEngine(t *testing.T, share uint64) (e *engine, url string) {
	t.Helper()
	e = &engine{name: "e1", born: "0", seed: 1, out: bufio.NewWriter(io.Discard)}
	e.share.Store(share)
	server := httptest.NewServer(handler(e))
	t.Cleanup(server.Close)
	return e, server.URL
}

// planFor draws a client that stays and for which the engine does what is wanted.
func planFor(t *testing.T, e *engine, fault truth.Fault, stream bool) plan {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		p := drawPlan(rnd, fmt.Sprintf("r%d", i))
		if p.Stream != stream || p.leaveAfter > 0 || p.leaveAt > 0 || p.slow > 0 || p.pause > 0 || p.Pieces > 40 || p.Pool != poolMain {
			continue
		}
		g := generation{e: e, o: p.order}
		if g.draw(); g.Fault == fault {
			p.h2 = false
			return p
		}
	}
	t.Fatalf("the engine never does %q", fault)
	return plan{}
}

// An engine that fails nothing gives answers that are true from end to end.
func TestEngineTellsTheTruth(t *testing.T) {
	e, url := fakeEngine(t, 0)
	for _, stream := range []bool{true, false} {
		p := planFor(t, e, truth.NoFault, stream)
		r := newClients().ask(url, p)
		if lies := r.Answer.Lies(r.End == truth.Clean); len(lies) > 0 || !r.Answer.Complete() || r.Answer.Pieces != p.Pieces {
			t.Errorf("stream %v: %+v %+v, lies %v", stream, r, r.Answer, lies)
		}
	}
}

// Each fault is what it is called: seen without a gateway in between, an early one
// brings no piece, a late one the beginning of an answer that is not whole, and a
// harmless one all of it.
func TestEngineFailsAsItSays(t *testing.T) {
	e, url := fakeEngine(t, 1e6)
	waits := []truth.Fault{truth.Silence, truth.HeadOnly, truth.StallLate} // these take a minute
	var all sync.WaitGroup
	for kind, faults := range map[string][]truth.Fault{"early": truth.Early, "late": truth.Late, "harmless": truth.Harmless} {
		for _, f := range faults {
			if slices.Contains(waits, f) {
				continue
			}
			p := planFor(t, e, f, f != truth.ShortLength)
			all.Go(func() {
				r := newClients().ask(url, p)
				whole := r.End == truth.Clean && r.Status == 200 && r.Answer.Complete()
				begun := r.Answer.Pieces > 0
				switch {
				case kind == "early" && (whole || begun), kind == "late" && whole, kind == "late" && !begun && p.Stream && f != truth.ResetLate:
					t.Errorf("%s: whole %v, %d pieces, %s %s", f, whole, r.Answer.Pieces, r.End, r.Err)
				case kind == "harmless" && !whole && f != truth.BadRequest:
					t.Errorf("%s: the answer is not whole: %s %s %+v", f, r.End, r.Err, r.Answer)
				}
			})
		}
	}
	all.Wait()
}

// What an engine is told comes back as it was sent.
func TestOrder(t *testing.T) {
	want := drawPlan(rand.New(rand.NewPCG(3, 4)), "r17").order
	got, err := parseOrder(want.String())
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if _, err := parseOrder("r17 main"); err == nil {
		t.Error("half an order was taken")
	}
}

// A panic in the gateway's log is found, also where a line comes in two parts.
func TestWatcher(t *testing.T) {
	var log bytes.Buffer
	w := &watcher{to: &log}
	text := "all is well\npanic: no\nWARNING: DATA RACE\nmore\n"
	for part := range slices.Chunk([]byte(text), 7) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Join(w.alarming(), "|"); got != "panic: no|WARNING: DATA RACE" {
		t.Errorf("found %q", got)
	}
	if log.String() != text {
		t.Errorf("the log is %q", log.String())
	}
}
