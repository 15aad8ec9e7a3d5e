package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// bodyOf is a chat body of n bytes that takes no memory: one piece of text, over and
// over.
func bodyOf(n int64) io.Reader {
	const head, tail = `{"model":"m","stream":true,"messages":[{"role":"user","content":"`, `"}]}`
	return io.MultiReader(strings.NewReader(head), io.LimitReader(endless{}, n-int64(len(head)+len(tail))), strings.NewReader(tail))
}

// endless is text without an end.
type endless struct{}

var filler = bytes.Repeat([]byte("all work and no play "), 1600)

func (endless) Read(p []byte) (int, error) { return copy(p, filler), nil }

// forgetful is a backend of which the chat path keeps nothing of the bodies that it
// reads. chat answers, and gets their length.
func forgetful(t *testing.T, chat func(w http.ResponseWriter, r *http.Request, size int64)) *backend {
	t.Helper()
	b := newBackendUnstarted(t)
	b.Server = &httptest.Server{Listener: listen(t), Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != chatPath {
			b.ServeHTTP(w, r)
			return
		}
		size, _ := io.Copy(io.Discard, r.Body)
		chat(w, r, size)
	})}}
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// heap is how much memory the process has in use, the gateway's and the test's.
func heap() int64 {
	samples := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	return int64(samples[0].Value.Uint64() + samples[1].Value.Uint64())
}

// live is heap without garbage.
func live() int64 {
	debug.FreeOSMemory()
	return heap()
}

// warmed has the gateway load what it loads once, and returns what is live then.
func (g *gateway) warmed() int64 {
	g.t.Helper()
	last, same := int64(0), 0
	eventually(g.t, "everything to be loaded", func() bool {
		if r := g.post(chat(true, "", prose("a long prompt", 200_000))); r.status != http.StatusOK {
			g.t.Fatalf("status %d: %s", r.status, r.body)
		}
		time.Sleep(100 * time.Millisecond)
		now := live()
		if same++; now-last > 256<<10 || last-now > 256<<10 {
			same = 0
		}
		last = now
		return same >= 4
	})
	return last
}

// bodyBytes is how much the gateway says that bodies take.
func (g *gateway) bodyBytes() float64 {
	g.t.Helper()
	family := g.families()["caddy_llmlb_body_bytes"]
	if family == nil {
		g.t.Fatal("no metric tells what bodies take")
	}
	return family.GetMetric()[0].GetGauge().GetValue()
}

// Sixty-four clients send 16 MiB each, and half of them stop half way. The memory for
// bodies holds a sixteenth of that: those that do not fit are told so, at once, the
// others are served, small requests of others go through in between, and the process
// never takes more than the bound that the manual names.
func TestManyLargeBodiesStayWithinTheirMemory(t *testing.T) {
	const (
		clients = 64
		size    = 16 << 20
		bound   = 64 << 20
	)
	var served, small atomic.Int32
	a := forgetful(t, func(w http.ResponseWriter, r *http.Request, got int64) {
		if got == size {
			served.Add(1)
		} else {
			small.Add(1)
		}
		answer(w, r, []byte(`{"stream":true}`))
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%sindex_bytes 1MiB\nmax_body 32MiB\nbody_timeout 3s\nqueue {\nmax_bytes 64MiB\n}\n}\n", a.addr(), fast))
	before := g.warmed()
	small.Store(0)
	var highest atomic.Int64
	watched := make(chan struct{})
	go func() {
		for {
			select {
			case <-watched:
				return
			case <-time.After(2 * time.Millisecond):
				highest.Store(max(highest.Load(), heap()))
			}
		}
	}()

	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	statuses := make(map[int]int)
	var all sync.WaitGroup
	for i := range clients {
		all.Go(func() {
			var status int
			if i%2 == 0 {
				status = g.upload(t, client, size)
			} else {
				status = g.stall(t, size)
			}
			mu.Lock()
			statuses[status]++
			mu.Unlock()
		})
	}
	over := make(chan struct{})
	go func() { all.Wait(); close(over) }()
	var took []time.Duration
	for i := 0; ; i++ {
		began := time.Now()
		if r, err := g.ask(client, chat(true, "", fmt.Sprint("small ", i))); err != nil || r.status != http.StatusOK || r.body != streamed() {
			t.Errorf("a small request: status %d, %v: %s", r.status, err, r.body)
		}
		took = append(took, time.Since(began))
		select {
		case <-over:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		break
	}
	slices.Sort(took)
	slow, slowest := took[len(took)*9/10], took[len(took)-1]
	close(watched)
	if statuses[http.StatusOK] == 0 {
		t.Log("no large body came through beside those that stalled")
	}
	t.Logf("answers: %v; of %d small requests a tenth took over %v, one %v; the heap rose by %d MiB",
		statuses, len(took), slow, slowest, (highest.Load()-before)>>20)
	// The clients, which send as fast as they can, have the machine to share with it.
	if slow > time.Second*slowdown || slowest > 3*time.Second*slowdown {
		t.Errorf("of small requests a tenth took over %v, one %v, want less than a second", slow, slowest)
	}
	if int(served.Load()) != statuses[http.StatusOK] || statuses[http.StatusTooManyRequests] == 0 {
		t.Errorf("answers: %v, and %d bodies arrived", statuses, served.Load())
	}
	for status := range statuses {
		switch status {
		case http.StatusOK, http.StatusTooManyRequests, http.StatusRequestTimeout, cutOff:
		default:
			t.Errorf("status %d: %v", status, statuses)
		}
	}
	// Buffers grow by doubling, and garbage is not collected before there is as much of
	// it as of everything else, what the process had before included.
	if rose, most := highest.Load()-before, 4*bound+before; rose > most && slowdown == 1 {
		t.Errorf("the heap rose by %d MiB, want at most %d", rose>>20, most>>20)
	}
	g.idle(t)
	eventually(t, "the memory to be given back", func() bool { return g.bodyBytes() == 0 && live()-before < 8<<20 })
	if status := g.upload(t, client, size); status != http.StatusOK {
		t.Errorf("status %d for a large body when there is room again", status)
	}
}

// cutOff stands for the status of an answer that a client did not hear, because it
// was still sending its body a while after it had been answered.
const cutOff = -1

// heard is the status of an answer, or cutOff.
func heard(t *testing.T, res *http.Response, err error) int {
	if errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return cutOff
	}
	if err != nil {
		t.Error(err)
		return 0
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// upload sends a whole body and returns the status of the answer.
func (g *gateway) upload(t *testing.T, client *http.Client, size int64) int {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, bodyOf(size))
	if err != nil {
		t.Error(err)
		return 0
	}
	req.ContentLength = size
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	return heard(t, res, err)
}

// stall sends half of a body and then nothing more, and returns the status of the
// answer.
func (g *gateway) stall(t *testing.T, size int64) int {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	half := &halfway{Reader: io.LimitReader(bodyOf(size), size/2), ctx: ctx}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, half)
	if err != nil {
		t.Error(err)
		return 0
	}
	req.ContentLength = size
	// A client of its own: what is left of the body ends with the connection.
	transport := &http.Transport{DialContext: (&net.Dialer{}).DialContext}
	defer transport.CloseIdleConnections()
	res, err := transport.RoundTrip(req)
	return heard(t, res, err)
}

// halfway is a body that stands still at its end.
type halfway struct {
	io.Reader
	ctx context.Context
}

func (h *halfway) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if err == io.EOF {
		<-h.ctx.Done()
		return 0, h.ctx.Err()
	}
	return n, err
}

// A stream that takes minutes does not hold its prompt for as long: once it has begun,
// nobody will send the body again.
func TestABodyIsGivenUpOnceItsAnswerHasBegun(t *testing.T) {
	const size = 16 << 20
	arrived, begin, end := make(chan int64, 1), make(chan struct{}), make(chan struct{})
	a := forgetful(t, func(w http.ResponseWriter, r *http.Request, got int64) {
		if got < size {
			answer(w, r, []byte(`{"stream":true}`))
			return
		}
		arrived <- got
		if !waits(r, begin) {
			return
		}
		w.Header().Set("Content-Type", eventStream)
		for i, e := range answerEvents {
			if i == 3 && !waits(r, end) {
				return
			}
			send(w, e)
		}
	})
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sindex_bytes 1MiB\n}\n", a.addr(), fast, patient))
	if n := g.bodyBytes(); n != 0 {
		t.Fatalf("bodies take %v bytes before there is one", n)
	}
	before := g.warmed()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, bodyOf(size))
	if err != nil {
		t.Fatal(err)
	}
	req.ContentLength = size
	answers := make(chan *http.Response, 1)
	go func() {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Error(err)
		}
		answers <- res
	}()
	if got := arrives(t, "the body at the server", arrived); got != size {
		t.Errorf("%d bytes arrived, want %d", got, size)
	}
	if n := g.bodyBytes(); n != size {
		t.Errorf("bodies take %v bytes before the answer, want %d", n, size)
	}
	// Other memory may have been let go meanwhile: the vocabulary, what tests before left.
	if held := live() - before; held < size-size/8 {
		t.Errorf("%d bytes are held before the answer, want %d: it may have to be sent again", held, size)
	}
	close(begin)
	res := arrives(t, "the answer's beginning", answers)
	if res == nil {
		t.FailNow()
	}
	eventually(t, "the body to be given up", func() bool { return g.bodyBytes() == 0 && live()-before < size/4 })
	if n := g.pools()[0].Endpoints[0].Calls; n != 1 {
		t.Errorf("%d calls are open, want the stream", n)
	}
	close(end)
	if r := read(t, res); r.body != streamed() {
		t.Errorf("status %d: %q", r.status, r.body)
	}
}
