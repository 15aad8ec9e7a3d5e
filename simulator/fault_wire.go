package simulator

import (
	"context"
	"io"
	"math"
	"net"
	"net/http"
	"reflect"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	// trickleBytes is how much comes at a time.
	trickleBytes = 16

	// maxIdle bounds how long a connection that is to be closed under the next
	// request waits for one.
	maxIdle = 30 * time.Second

	// exitCheck is how soon a request that waits notices that Caddy exits.
	exitCheck = 250 * time.Millisecond
)

// strikeEarly does what a fault does in place of an answer. It reports whether
// it has done anything.
func strikeEarly(w http.ResponseWriter, r *http.Request, f fault, stream bool) (bool, error) {
	switch f.kind {
	case faultRefuse:
		sever(w, false)
	case faultReset:
		sever(w, true)
	case faultHeadersSilence:
		if stream {
			openStream(w)
		} else {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
		}
		hang(r)
	case faultSilence:
		hang(r)
	case faultErrorFirst:
		if !stream {
			return true, fail(w, f.code, f.says())
		}
		openStream(w).fail(f.code, f.says())
	case faultStatus:
		if f.retryAfter != "" {
			w.Header().Set("Retry-After", f.retryAfter)
		}
		return true, fail(w, f.code, f.says())
	case faultLoading:
		return true, writeJSON(w, http.StatusServiceUnavailable, errorBody{
			Error: loadingError{Code: http.StatusServiceUnavailable, Message: "Loading model", Type: "unavailable_error"},
		})
	default:
		return false, nil
	}
	return true, nil
}

// hang waits until the client has left.
func hang(r *http.Request) {
	// A departure shows only when the body has been read to its end.
	_, _ = io.CopyN(io.Discard, r.Body, maxBody)
	pause(r.Context(), math.MaxInt64)
}

// pause waits, and reports whether the client is still there. When Caddy exits
// it ends the request, which would keep a process without grace_period.
func pause(ctx context.Context, d time.Duration) bool {
	timer, tick := time.NewTimer(d), time.NewTicker(exitCheck)
	defer timer.Stop()
	defer tick.Stop()
	for !caddy.Exiting() {
		select {
		case <-timer.C:
			return true
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
	panic(http.ErrAbortHandler)
}

// sever closes the connection under a request, with a reset if it is to be
// hard. HTTP/2 and 3 share a connection among requests: there only the
// request's own stream is reset, and sever does not return.
func sever(w http.ResponseWriter, hard bool) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	raw := bottom(conn)
	if l, ok := raw.(interface{ SetLinger(sec int) error }); ok && hard {
		_ = l.SetLinger(0)
	}
	// Not the connection on top: TLS would say goodbye first.
	_ = raw.Close()
}

// bottom finds the network's connection below those that wrap it. Caddy's own
// wrappers for the access log and for sites without HTTP/2 embed it and have no
// method that tells it, so it is read from their field.
func bottom(conn net.Conn) net.Conn {
	for {
		if c, ok := conn.(interface{ NetConn() net.Conn }); ok {
			conn = c.NetConn()
			continue
		}
		v := reflect.Indirect(reflect.ValueOf(conn))
		if v.Kind() != reflect.Struct {
			return conn
		}
		field := v.FieldByName("Conn")
		if !field.IsValid() || !field.CanInterface() {
			return conn
		}
		inner, ok := reflect.TypeAssert[net.Conn](field)
		if !ok || inner == nil {
			return conn
		}
		conn = inner
	}
}

// closeAfter ends a complete answer and closes the connection, of which the
// answer's header said nothing: at once, or when the next request begins to
// arrive on it. On HTTP/2 and 3 it does nothing.
func closeAfter(w http.ResponseWriter, r *http.Request, f fault, chunked bool) {
	control := http.NewResponseController(w)
	if control.Flush() != nil {
		return
	}
	conn, _, err := control.Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	if chunked && r.ProtoAtLeast(1, 1) {
		// The last chunk, which the server would have written.
		if _, err := conn.Write([]byte("0\r\n\r\n")); err != nil {
			return
		}
	}
	if f.reused {
		_ = conn.SetReadDeadline(time.Now().Add(maxIdle))
		_, _ = conn.Read(make([]byte, 1))
	}
}

// writeSlowly writes a few bytes at a time.
func writeSlowly(ctx context.Context, w http.ResponseWriter, data []byte, wait time.Duration) error {
	flush := http.NewResponseController(w).Flush
	for len(data) > 0 {
		n := min(trickleBytes, len(data))
		if _, err := w.Write(data[:n]); err != nil {
			return err
		}
		if err := flush(); err != nil {
			return err
		}
		if data = data[n:]; !pause(ctx, wait) {
			return ctx.Err()
		}
	}
	return nil
}

// says is the error's message: the one given, or what engines say.
func (f fault) says() string {
	switch {
	case f.message != "":
		return f.message
	case f.code == http.StatusTooManyRequests, f.code == http.StatusServiceUnavailable, f.code == 529:
		return "The request queue is full."
	case http.StatusText(f.code) != "":
		return http.StatusText(f.code)
	}
	return "error " + strconv.Itoa(f.code)
}
