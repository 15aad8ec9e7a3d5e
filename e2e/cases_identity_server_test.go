package e2e

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// identical holds what servers get against what was sent.
type identical struct {
	t        *testing.T
	seed     uint64
	injected bool
	mu       sync.Mutex
	served   map[int]int
	wholes   int
	parts    int
	fated    map[string]int
}

// check compares what came of a body, or all of it.
func (x *identical) check(n int, got, want []byte, whole bool) {
	if !bytes.HasPrefix(want, got) {
		at := 0
		for at < len(got) && at < len(want) && got[at] == want[at] {
			at++
		}
		x.t.Errorf("request %d: byte %d of %d (of %d) is not its own: got %.60q, want %.60q", n, at, len(got), len(want), got[at:min(len(got), at+60)], want[min(at, len(want)):min(len(want), at+60)])
		return
	}
	if whole && len(got) != len(want) {
		x.t.Errorf("request %d: a clean end after %d bytes of %d", n, len(got), len(want))
	}
	x.mu.Lock()
	if whole {
		x.wholes++
	} else {
		x.parts++
	}
	x.mu.Unlock()
}

// serve reads a body and answers it, or fails it at a byte of no importance.
func (x *identical) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r)
		return
	}
	n, err := strconv.Atoi(r.Header.Get("X-Number"))
	if err != nil {
		http.Error(w, "no number", http.StatusBadRequest)
		return
	}
	s := seeded{x.seed, n}
	want := s.arrives(x.injected)
	stream := s.draw().stream
	if r.ContentLength >= 0 && r.ContentLength != int64(len(want)) {
		x.t.Errorf("request %d is said to have %d bytes, has %d", n, r.ContentLength, len(want))
	}
	c := http.NewResponseController(w)
	read := func(most int64) (got []byte, whole bool) {
		got, err := io.ReadAll(io.LimitReader(r.Body, most))
		whole = err == nil && int64(len(got)) < most
		x.check(n, got, want, whole)
		return got, whole
	}
	all := int64(len(want) + 1)
	reset := func() {
		if h, ok := w.(http.Hijacker); ok {
			conn, _, err := h.Hijack()
			if err == nil {
				if tcp, ok := conn.(*net.TCPConn); ok {
					_ = tcp.SetLinger(0)
				}
				conn.Close()
				return
			}
		}
		panic(http.ErrAbortHandler)
	}
	fate := rand.IntN(100)
	name := ""
	defer func() {
		x.mu.Lock()
		x.fated[name]++
		x.mu.Unlock()
	}()
	switch {
	case fate < 6:
		name = "503 unread"
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case fate < 12:
		name = "500 after a part"
		read(rand.Int64N(all))
		w.WriteHeader(http.StatusInternalServerError)
		return
	case fate < 20:
		name = "reset after a part"
		read(rand.Int64N(all))
		reset()
		return
	case fate < 24:
		name = "reset after all"
		read(all)
		reset()
		return
	case fate < 40:
		name = "answers before it reads"
		_ = c.EnableFullDuplex()
		if stream {
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%d "}}]}`, n))
			for {
				time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
				p := make([]byte, 1+rand.IntN(200_000))
				k, err := io.ReadFull(r.Body, p)
				part := p[:k]
				if !bytes.Equal(part, want[:min(k, len(want))]) {
					x.t.Errorf("request %d: got other bytes behind an early answer", n)
					return
				}
				want = want[k:]
				if err == io.EOF || err == io.ErrUnexpectedEOF {
					break
				}
				if err != nil {
					return
				}
			}
			if len(want) == 0 {
				finish(w)
			}
			return
		}
	case fate < 46:
		name = "slow reader"
		got := make([]byte, 0, len(want))
		for {
			p := make([]byte, 1+rand.IntN(100_000))
			k, err := r.Body.Read(p)
			got = append(got, p[:k]...)
			if err != nil {
				x.check(n, got, want, err == io.EOF)
				if err != io.EOF {
					return
				}
				break
			}
			time.Sleep(time.Duration(rand.IntN(1500)) * time.Microsecond)
		}
		x.answer(w, n, stream, sumOf(got))
		return
	default:
		name = "served"
	}
	got, whole := read(all)
	if !whole {
		return
	}
	x.answer(w, n, stream, sumOf(got))
	if r.Context().Err() == nil {
		x.mu.Lock()
		x.served[n]++
		x.mu.Unlock()
	}
}

func finish(w http.ResponseWriter) {
	send(w, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	send(w, `[DONE]`)
}

func (x *identical) answer(w http.ResponseWriter, n int, stream bool, sum string) {
	if !stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"choices":[{"index":0,"message":{"role":"assistant","content":"%d %s"},"finish_reason":"stop"}]}`, n, sum)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send(w, `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`)
	send(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%d "}}]}`, n))
	for i := 0; i < len(sum); i += 4 {
		send(w, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%s"}}]}`, sum[i:i+4]))
	}
	finish(w)
}
