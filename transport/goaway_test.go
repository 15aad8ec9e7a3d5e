package transport

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// departing serves HTTP/2 in clear text. The first connection refuses what it gets, in
// the given way, without having read it; those after it answer.
func departing(t *testing.T, refuse func(f *http2.Framer, stream uint32)) (address string, served *atomic.Int32) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	served = new(atomic.Int32)
	go func() {
		for n := 0; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
				f := http2.NewFramer(c, c)
				_ = f.WriteSettings()
				var head strings.Builder
				e := hpack.NewEncoder(&head)
				_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
				_ = e.WriteField(hpack.HeaderField{Name: "content-type", Value: "text/event-stream"})
				for {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					switch d := frame.(type) {
					case *http2.HeadersFrame:
						if n == 0 {
							refuse(f, d.StreamID)
						}
					case *http2.DataFrame:
						if n > 0 && d.StreamEnded() {
							served.Add(1)
							_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: d.StreamID, BlockFragment: []byte(head.String()), EndHeaders: true})
							_ = f.WriteData(d.StreamID, true, []byte(events(role, hello, stop, "[DONE]")))
						}
					}
				}
			}()
		}
	}()
	return ln.Addr().String(), served
}

// A server that speaks HTTP/2 goes away, or refuses a stream, and says that it has not
// read the request. Then it is sent again, on a new connection, as over HTTP/1.1.
func TestRequestThatWasNotReadOverHTTP2IsSentAgain(t *testing.T) {
	for name, refuse := range map[string]func(f *http2.Framer, stream uint32){
		"goes away": func(f *http2.Framer, _ uint32) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) },
		"refuses": func(f *http2.Framer, stream uint32) {
			_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			_ = f.WriteGoAway(stream, http2.ErrCodeNo, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			address, served := departing(t, refuse)
			tr := provisioned(t, `{"versions":["h2c"],"failover":"unsent"}`)
			w := newWorld(t, tr, address)
			c := w.call()
			resp, body, err := w.do(c)
			if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(body, "[DONE]") {
				t.Fatalf("got %v and %q, want an answer", err, body)
			}
			if c.Outcome != llmlb.Served || served.Load() != 1 {
				t.Errorf("the outcome is %v, and it was served %d times", c.Outcome, served.Load())
			}
		})
	}
}
