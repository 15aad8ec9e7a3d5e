package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pouring makes the server send to those who want a stream more than any socket
// takes in, as fast as it goes. It counts what went out, and says when it could
// not go on.
func pouring(b *backend) (sent *atomic.Int64, cut <-chan struct{}) {
	const most = 64 << 20
	sent = new(atomic.Int64)
	ch := make(chan struct{}, 64)
	text := `data: {"choices":[{"index":0,"delta":{"content":"` + strings.Repeat("word ", 6<<10) + `"}}]}` + "\n\n"
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !strings.Contains(string(body), `"stream":true`) {
			answer(w, r, body)
			return
		}
		w.Header().Set("Content-Type", eventStream)
		for n := 0; n < most && r.Context().Err() == nil; n += len(text) {
			if _, err := io.WriteString(w, text); err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
			sent.Add(int64(len(text)))
		}
		<-r.Context().Done()
		ch <- struct{}{}
	})
	return sent, ch
}

// stalls opens a stream that it never reads.
func (g *gateway) stalls(t *testing.T, client *http.Client, question string) (leave func()) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	t.Cleanup(leave)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", question)))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		t.Fatalf("status %d", res.StatusCode)
	}
	t.Cleanup(func() { res.Body.Close() })
	return leave
}

// A client stays connected and stops reading. It does not keep its place at the
// server: after write_timeout its stream is ended there, and the next request,
// which has waited for it, has the place.
func TestAClientThatStopsReadingLosesItsPlace(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			a := newBackend(t)
			sent, cut := pouring(a)
			log := newJournal(t)
			g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%swrite_timeout 2s\nendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, a.addr()))
			g.stalls(t, g.slowly(t, protocol), "one that nobody reads")
			began := time.Now()
			next := g.asks(t, g.over(t, protocol), "the next one")
			eventually(t, "the next request to wait", func() bool { return g.queued() == 1 })
			if r := arrives(t, "the next request to have the place", next); r.status != http.StatusOK {
				t.Errorf("status %d: %s", r.status, r.body)
			}
			if took := time.Since(began); took > 15*time.Second {
				t.Errorf("the place was free after %v, want 5s on a quiet machine", took)
			}
			arrives(t, "the stream to be ended at the server", cut)
			g.ended(map[string]int{"served": 1, "client_gone": 1})
			t.Logf("%d KiB went out", sent.Load()>>10)
			for _, e := range log.entries(t, 2) {
				if e["llm_outcome"] == "client_gone" && (e["llm_aborted"] != "client" || e["status"] != 200.0) {
					t.Errorf("the stream that was not read is logged as %v", e)
				}
			}
			if row := g.endpoint("a"); row.State != "up" || row.ErrorRate != 0 {
				t.Errorf("the server is %s with an error rate of %v, for what a client did", row.State, row.ErrorRate)
			}
		})
	}
}

// A stream that stands still because nobody reads it costs less than 1 MiB, the
// client's and the server's own memory in this process included.
func TestStalledStreamsCostLittle(t *testing.T) {
	for _, protocol := range protocols {
		t.Run(protocol, func(t *testing.T) {
			const n = 16
			a := newBackend(t)
			sent, cut := pouring(a)
			g := secure(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
			client := g.slowly(t, protocol)
			if r, err := g.ask(client, chat(false, "", "so that everything is there")); err != nil || r.status != http.StatusOK {
				t.Fatalf("status %d, %v", r.status, err)
			}
			before := memory()
			var all []func()
			for i := range n {
				all = append(all, g.stalls(t, client, fmt.Sprint("stream ", i)))
			}
			// Should it be measured too early, it is in the favour of nobody:
			// what is copied is not kept.
			last := int64(-1)
			eventually(t, "everything to stand still", func() bool {
				now := sent.Load()
				still := now == last
				last = now
				time.Sleep(100 * time.Millisecond)
				return still
			})
			each := (memory() - before) / n
			t.Logf("%d KiB for each of %d stalled streams, %d KiB sent to each", each>>10, n, sent.Load()>>10/n)
			if each >= 1<<20 {
				t.Errorf("a stalled stream costs %d KiB, want less than 1 MiB", each>>10)
			}
			for _, leave := range all {
				leave()
			}
			for range n {
				arrives(t, "the streams to end at the server", cut)
			}
			g.idle(t)
		})
	}
}

// memory is what the process holds, after everything unused was given up.
func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // what has a finalizer goes only now
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// A client that reads slowly, but does read, gets everything: write_timeout is
// about one that does not take anything for so long.
func TestASlowClientThatReadsIsNotCut(t *testing.T) {
	a := newBackend(t)
	text := strings.Repeat("word ", 1<<10)
	pieces := events(answerEvents[0])
	for range 60 {
		pieces = append(pieces, events(`{"choices":[{"index":0,"delta":{"content":"`+text+`"}}]}`)...)
	}
	pieces = append(pieces, events(answerEvents[4:]...)...)
	a.answers(plays(eventStream, pieces, nil))
	g := secure(t, fmt.Sprintf("llm_proxy %s {\n%swrite_timeout 4s\n}\n", a.addr(), fast))
	var all sync.WaitGroup
	for _, protocol := range protocols {
		client := g.slowly(t, protocol)
		all.Go(func() {
			res, err := client.Post(g.url+chatPath, "application/json", strings.NewReader(chat(true, "", "hi")))
			if err != nil {
				t.Errorf("%s: %v", protocol, err)
				return
			}
			defer res.Body.Close()
			var got strings.Builder
			// Nine seconds for all of it, twice what one write may take.
			for err == nil {
				time.Sleep(150 * time.Millisecond) // the client's pace
				_, err = io.CopyN(&got, res.Body, 5<<10)
			}
			if !errors.Is(err, io.EOF) {
				t.Errorf("%s: cut after %d bytes: %v", protocol, got.Len(), err)
			}
			if want := strings.Join(pieces, ""); got.String() != want {
				t.Errorf("%s: %d bytes came, want %d", protocol, got.Len(), len(want))
			}
		})
	}
	all.Wait()
	g.ended(map[string]int{"served": len(protocols)})
}
