//go:build linux

package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// headTime is how long an engine thinks before its answer begins, at least, and
// bytesPerSecond how fast it reads prompts.
const (
	headTime       = 4 * time.Millisecond
	bytesPerSecond = 40e6
)

// generation is one request at an engine.
type generation struct {
	truth.Generation
	e       *engine
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	o       order
	script  *truth.Script
	at      int  // the piece at which a late fault strikes
	failed  bool // a write has failed: the client left
}

// draw decides what happens to the request, by the seed, the engine and the
// request, so that a run can be repeated.
func (g *generation) draw() {
	h := fnv.New64a()
	_, _ = h.Write([]byte(g.e.name + " " + g.o.ID))
	rnd := rand.New(rand.NewPCG(g.e.seed, h.Sum64()))
	g.Fault = truth.NoFault
	// A late fault strikes behind the first piece, and before the end.
	g.at = 1 + rnd.IntN(max(1, g.o.Pieces-1))
	if rnd.Uint64N(1e6) >= g.e.share.Load() {
		return
	}
	kinds := [][]truth.Fault{truth.Early, truth.Early, truth.Late, truth.Harmless}
	for {
		kind := kinds[rnd.IntN(len(kinds))]
		if f := kind[rnd.IntN(len(kind))]; f.Fits(g.o.Stream) {
			// What takes seconds is rarer than what does not.
			if slow := f == truth.Silence || f == truth.HeadOnly || f == truth.StallLate; !slow || rnd.IntN(4) == 0 {
				g.Fault = f
				return
			}
		}
	}
}

// serve answers, or does what the fault says.
func (g *generation) serve() {
	if g.Fault == truth.EarlyRefusal {
		g.fail(http.StatusServiceUnavailable)
		return
	}
	if g.Fault == truth.LateBody {
		g.wait(100 * time.Millisecond)
	}
	body, err := io.ReadAll(g.r.Body)
	if err != nil {
		g.failed = true
		return
	}
	g.BodyWrong = truth.Sum(body) != g.o.Sum || !bytes.Contains(body, []byte(g.o.ID+";"))
	g.e.prompts.Add(int64(len(body) / 4))
	if !g.wait(headTime + time.Duration(float64(len(body))/bytesPerSecond*float64(time.Second))) {
		return
	}
	if g.strikeEarly() {
		return
	}
	if g.o.Stream {
		g.stream(len(body))
	} else {
		g.document(len(body))
	}
}

// strikeEarly does what early faults do.
func (g *generation) strikeEarly() bool {
	switch g.Fault {
	case truth.ResetEarly:
		g.sever("", true)
	case truth.CloseEarly:
		g.wait(60 * time.Millisecond) // at once it would be a stale connection
		g.sever("", false)
	case truth.NotHTTP:
		g.sever("SSH-2.0-nonsense\r\n", false)
	case truth.BrokenHead:
		g.sever("HTTP/1.1 200 OK\r\nContent-Type: text/ev", false)
	case truth.Status500:
		g.fail(http.StatusInternalServerError)
	case truth.Status503:
		g.fail(http.StatusServiceUnavailable)
	case truth.Status429:
		g.w.Header().Set("Retry-After", "1")
		g.fail(http.StatusTooManyRequests)
	case truth.BadRequest:
		g.fail(http.StatusBadRequest)
	case truth.Silence:
		g.wait(time.Minute)
	case truth.HeadOnly:
		g.head()
		g.wait(time.Minute)
	case truth.ErrorFirst:
		g.head()
		g.send(`{"error":{"message":"out of memory","code":500}}`)
	case truth.Empty:
		g.head()
	case truth.RoleThenClose:
		g.head()
		g.send(roleChunk)
		panic(http.ErrAbortHandler)
	default:
		return false
	}
	return true
}

const (
	roleChunk   = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
	finishChunk = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
)

// stream answers in pieces.
func (g *generation) stream(prompt int) {
	if g.Fault == truth.SlowHead {
		g.wait(400 * time.Millisecond)
	}
	g.head()
	g.send(roleChunk)
	for i := range g.o.Pieces {
		if i == g.at && g.strikeLate() {
			return
		}
		if i > 0 && !g.wait(g.o.Gap) {
			return
		}
		text := fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%s"}}]}`, g.script.Next(g.o.Pad))
		if i == g.at && g.Fault == truth.Malformed {
			text = text[:len(text)/2]
		}
		if g.Fault == truth.Comments && i%3 == 0 {
			g.raw(": still here\n\n")
		}
		if !g.send(text) {
			return
		}
		g.e.tokens.Add(1)
	}
	if g.o.Pieces <= g.at && g.strikeLate() {
		return
	}
	g.send(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%s"}}]}`, g.script.End()))
	g.send(finishChunk)
	g.send(fmt.Sprintf(`{"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, prompt/4, g.o.Pieces+1))
	if g.Fault != truth.NoDone {
		g.send("[DONE]")
	}
	if g.Fault == truth.CloseAfter {
		g.sever("0\r\n\r\n", false)
	}
}

// strikeLate does what late faults do.
func (g *generation) strikeLate() bool {
	switch g.Fault {
	case truth.CutLate:
		panic(http.ErrAbortHandler)
	case truth.ResetLate:
		g.sever("", true)
	case truth.StallLate:
		g.wait(time.Minute)
	case truth.ErrorLate:
		g.send(`{"error":{"message":"out of memory","code":500}}`)
	case truth.NoFinish:
	default:
		return false
	}
	return true
}

// document answers in one piece.
func (g *generation) document(prompt int) {
	var text strings.Builder
	for range g.o.Pieces {
		text.WriteString(g.script.Next(g.o.Pad))
	}
	if !g.wait(g.o.Gap * time.Duration(min(g.o.Pieces, 40))) {
		return
	}
	text.WriteString(g.script.End())
	g.e.tokens.Add(int64(g.o.Pieces))
	body := fmt.Sprintf(`{"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`,
		text.String(), prompt/4, g.o.Pieces+1)
	g.w.Header().Set("Content-Type", "application/json")
	if g.Fault == truth.ShortLength {
		g.w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		body = body[:len(body)/2]
	}
	g.raw(body)
	if g.Fault == truth.ShortLength {
		panic(http.ErrAbortHandler)
	}
}

func (g *generation) head() {
	g.w.Header().Set("Content-Type", "text/event-stream")
	_ = g.control.Flush()
}

// send writes an event and says whether the client was still there.
func (g *generation) send(data string) bool { return g.raw("data: " + data + "\n\n") }

func (g *generation) raw(text string) bool {
	step := len(text)
	if g.Fault == truth.Trickle {
		step = max(1, len(text)/3)
	}
	for len(text) > 0 && !g.failed {
		n := min(step, len(text))
		if _, err := io.WriteString(g.w, text[:n]); err != nil || g.control.Flush() != nil {
			g.failed = true
		}
		text = text[n:]
	}
	return !g.failed
}

// fail answers with an error.
func (g *generation) fail(status int) {
	g.w.Header().Set("Content-Type", "application/json")
	g.w.WriteHeader(status)
	fmt.Fprintf(g.w, `{"error":{"message":"soak says %d","code":%d}}`, status, status)
}

// sever writes some last bytes and closes the connection, with a reset if it is
// to be hard.
func (g *generation) sever(last string, hard bool) {
	conn, _, err := g.control.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, last)
	if tcp, ok := conn.(*net.TCPConn); ok && hard {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

// wait pauses, and says whether the client was still there.
func (g *generation) wait(d time.Duration) bool {
	if d <= 0 {
		return g.r.Context().Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-g.r.Context().Done():
		return false
	}
}
