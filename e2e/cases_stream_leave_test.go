package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A client leaves before the headers have come. Its request ends at the server,
// and nobody is asked in its place.
func TestAClientThatLeavesBeforeTheHeaders(t *testing.T) {
	for _, protocol := range protocols {
		quickest := time.Minute // the machine may be busy with others
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stream %v", protocol, stream), func(t *testing.T) {
				a, b := newBackend(t), newBackend(t)
				arrived, gone := make(chan struct{}, 8), make(chan time.Time, 8)
				inTurn([]*backend{a, b}, func(_ http.ResponseWriter, r *http.Request, _ []byte) {
					arrived <- struct{}{}
					<-r.Context().Done()
					gone <- time.Now()
				})
				log := newJournal(t)
				g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s %s {\n%s}\n", a.addr(), b.addr(), fast))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(stream, "", "hi")))
				if err != nil {
					t.Fatal(err)
				}
				client, ended := g.over(t, protocol), make(chan error, 1)
				go func() {
					res, err := client.Do(req)
					if err == nil {
						res.Body.Close()
					}
					ended <- err
				}()
				arrives(t, "the request to reach a server", arrived)
				left := time.Now()
				leave()
				quickest = min(quickest, arrives(t, "the request to end at the server", gone).Sub(left))
				if err := arrives(t, "the client to have left", ended); !errors.Is(err, context.Canceled) {
					t.Errorf("the client got %v", err)
				}
				log.entries(t, 1) // no attempt follows its end
				if n := hits(a, b); n != 1 {
					t.Errorf("%d attempts, want 1", n)
				}
				g.ended(map[string]int{"client_gone": 1})
			})
		}
		if quickest > 3*time.Second {
			t.Errorf("%s: a server learned %v later that the client had left", protocol, quickest)
		}
	}
}

// Ten streams run over one connection. Five clients leave in the middle of
// theirs: those end at the server, and the other five come whole.
func TestStreamsThatAreResetLeaveTheirNeighboursAlone(t *testing.T) {
	for _, protocol := range []string{"h2", "h3"} {
		t.Run(protocol, func(t *testing.T) {
			a := newBackend(t)
			g := secure(t, fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
			client := g.over(t, protocol)
			if r, err := g.ask(client, chat(false, "", "so that there is a connection")); err != nil || r.status != http.StatusOK {
				t.Fatalf("status %d, %v", r.status, err)
			}
			const first = 2 // events that all of them get
			var aborted atomic.Int32
			next := make(chan struct{})
			a.answers(func(w http.ResponseWriter, r *http.Request, _ []byte) {
				w.Header().Set("Content-Type", eventStream)
				for i, e := range answerEvents {
					if i == first {
						select {
						case <-next:
						case <-r.Context().Done():
							aborted.Add(1)
							return
						}
					}
					send(w, e)
				}
			})
			type stream struct {
				res   *http.Response
				leave context.CancelFunc
			}
			begin := func(i int) (s stream) {
				var ctx context.Context
				ctx, s.leave = context.WithCancel(t.Context())
				t.Cleanup(s.leave)
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", fmt.Sprint("question ", i))))
				if err != nil {
					t.Fatal(err)
				}
				if s.res, err = client.Do(req); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { s.res.Body.Close() })
				return s
			}
			beginning := strings.Join(events(answerEvents[:first]...), "")
			var list []stream
			for i := range 10 {
				s := begin(i)
				got := make([]byte, len(beginning))
				if _, err := io.ReadFull(s.res.Body, got); err != nil || string(got) != beginning {
					t.Fatalf("stream %d: read %q, %v", i, got, err)
				}
				list = append(list, s)
			}
			for i := 0; i < len(list); i += 2 {
				list[i].leave()
			}
			eventually(t, "five streams to end at the server", func() bool { return aborted.Load() == 5 })
			close(next)
			for i := 1; i < len(list); i += 2 {
				if rest, err := io.ReadAll(list[i].res.Body); err != nil || beginning+string(rest) != streamed() {
					t.Errorf("stream %d: %v after %q", i, err, rest)
				}
			}
			g.ended(map[string]int{"served": 6, "client_gone": 5})
			if n := aborted.Load(); n != 5 {
				t.Errorf("%d streams were ended at the server, want 5", n)
			}
		})
	}
}
