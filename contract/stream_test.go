package contract

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Once headers were sent, a broken stream is no error value: it is a panic that
// runs through every handler, so accounting lives in defer.
func TestAbortAfterHeadersPanicsThroughHandlers(t *testing.T) {
	for _, test := range []struct {
		name       string
		clientGoes bool
	}{
		{"the upstream breaks off", false},
		{"the client leaves", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			left := make(chan struct{})
			server := backend(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, "data: one\n\n")
				_ = http.NewResponseController(w).Flush()
				if test.clientGoes {
					<-r.Context().Done()
					close(left)
					return
				}
				panic(http.ErrAbortHandler)
			})
			recovered := make(chan any, 1)
			url := load(t, []object{inFront(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
				defer func() {
					v := recover()
					recovered <- v
					if v != nil {
						panic(v)
					}
				}()
				return next.ServeHTTP(w, r)
			}), proxyTo(t, hooks{choose: first}, nil, server.URL)})

			res, err := client(t).Post(url, "application/json", strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			line, err := bufio.NewReader(res.Body).ReadString('\n')
			if err != nil || line != "data: one\n" {
				t.Fatalf("the stream began with %q (%v)", line, err)
			}
			if test.clientGoes {
				res.Body.Close()
				await(t, "the upstream to see the client leave", left)
			} else if _, err := io.ReadAll(res.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the client's stream ended with %v, want a visible break", err)
			}
			got, _ := await(t, "the handler's end", recovered).(error)
			if !errors.Is(got, http.ErrAbortHandler) {
				t.Errorf("the handler in front recovered %v, want http.ErrAbortHandler", got)
			}
		})
	}
}

// A client learns at once that its stream was accepted, however long the first
// token takes: no flush_interval is needed for that, and compression, which
// takes event streams for text, does not hold the headers back.
func TestEventStreamHeadersAreSentBeforeTheFirstByte(t *testing.T) {
	for _, test := range []struct {
		name  string
		front []object
	}{
		{"plain", nil},
		{"under encode", []object{{"handler": "encode", "encodings": object{"gzip": object{}}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := make(chan struct{})
			server := backend(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				_ = http.NewResponseController(w).Flush()
				<-token
				_, _ = io.WriteString(w, "data: one\n\n")
			})
			url := load(t, append(test.front, proxyTo(t, hooks{choose: first}, nil, server.URL)))

			res, err := client(t).Post(url, "application/json", strings.NewReader("{}"))
			close(token)
			if err != nil {
				t.Fatalf("no headers came while the upstream had no byte to send: %v", err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != "data: one\n\n" {
				t.Errorf("the stream was %q (%v)", got, err)
			}
		})
	}
}

// While a request waits for its turn, its client may leave. Caddy tells, but
// only a handler that has read the body to its end.
func TestClientLeavingIsSeenOnceTheBodyWasRead(t *testing.T) {
	waiting, seen := make(chan struct{}), make(chan struct{})
	url := load(t, []object{inFront(t, func(_ http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
		_, _ = io.Copy(io.Discard, r.Body)
		close(waiting)
		<-r.Context().Done()
		close(seen)
		return nil
	})})

	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		res, err := client(t).Do(req)
		if err == nil {
			res.Body.Close()
		}
		ended <- err
	}()
	await(t, "the handler to have the body", waiting)
	leave()
	await(t, "the handler to see the client leave", seen)
	if err := await(t, "the client's end", ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the client ended with %v", err)
	}
}

// A handler that has read a chunked upload and puts the bytes back gives the
// upstream a length only if it also clears TransferEncoding, which HTTP servers
// of engines need.
func TestRereadBodyKeepsChunkedFramingUnlessTransferEncodingIsCleared(t *testing.T) {
	for _, test := range []struct {
		name   string
		clear  bool
		length int64
	}{
		{"left as it was", false, -1},
		{"cleared", true, 5},
	} {
		t.Run(test.name, func(t *testing.T) {
			lengths := make(chan int64, 1)
			server := backend(t, func(w http.ResponseWriter, r *http.Request) {
				lengths <- r.ContentLength
				echo(w, r)
			})
			url := load(t, []object{inFront(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					return err
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				r.ContentLength = int64(len(body))
				if test.clear {
					r.TransferEncoding = nil
				}
				return next.ServeHTTP(w, r)
			}), proxyTo(t, hooks{choose: first}, nil, server.URL)})

			// A reader of no known length is sent in chunks.
			res, err := client(t).Post(url, "application/json", io.MultiReader(strings.NewReader("hello")))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if got, err := io.ReadAll(res.Body); err != nil || string(got) != "hello" {
				t.Errorf("the upstream got %q (%v), want the whole body", got, err)
			}
			if got := <-lengths; got != test.length {
				t.Errorf("the upstream saw length %d, want %d", got, test.length)
			}
		})
	}
}
