package admission

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// With usage inject the engine is asked for token counts in the client's place,
// and nowhere else does it get other bytes than the client sent.
func TestUsageIsAskedForInStreams(t *testing.T) {
	const asked = `{"model":"m","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(streamed))
	_ = z.Close()
	for _, test := range []struct {
		name, usage, path, body string
		header                  http.Header
		want                    string // "" for the body as it came
	}{
		{"a stream", inject, chatPath, streamed, nil, asked},
		{"text", inject, "/v1/completions", `{"prompt":"hi","stream":true}`, nil, `{"prompt":"hi","stream":true,"stream_options":{"include_usage":true}}`},
		{"not by default", "", chatPath, streamed, nil, ""},
		{"no stream", inject, chatPath, plain, nil, ""},
		{"asked already", inject, chatPath, asked, nil, ""},
		{"another dialect", inject, "/v1/messages", streamed, nil, ""},
		{"not understood", inject, chatPath, `{"stream":true,`, nil, ""},
		{"options of another type", inject, chatPath, `{"stream":true,"messages":[],"stream_options":7}`, nil, ""},
		{"compressed", inject, chatPath, packed.String(), http.Header{"Content-Encoding": {"gzip"}}, ""},
		{"signed", inject, chatPath, streamed, http.Header{"Content-Digest": {"sha-256=:x:"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			var strip bool
			e := newEngine(t, nil)
			g := start(t, site{upstreams: []string{e.address()}, admission: object{"usage": test.usage}})
			if resp, answer := g.do(http.MethodPost, test.path, strings.NewReader(test.body), test.header); resp.StatusCode != http.StatusOK {
				t.Fatalf("got %d %s", resp.StatusCode, answer)
			}
			seen, got := e.requests()
			want := test.want
			if want == "" {
				want = test.body
			}
			if string(got[0]) != want || seen[0].Header.Get("Content-Length") != strconv.Itoa(len(want)) {
				t.Errorf("the engine got %s bytes: %s\nwant %s", seen[0].Header.Get("Content-Length"), got[0], want)
			}

			// The transport is told to keep the extra chunk from the client.
			h := &Handler{Usage: test.usage}
			s := newStage(t, h, "a")
			s.attempt = func(a *played) *ending {
				strip = a.call.StripUsage
				if a.call.StreamUsage && strip {
					t.Error("the call says that the client asked")
				}
				return nil
			}
			r := posting(t, test.path, test.body, test.header)
			_ = h.ServeHTTP(newScreen(), r, s)
			if strip != (test.want != "") {
				t.Errorf("the chunk is kept from the client: %v", strip)
			}
		})
	}
}

// The prompt is what the client wrote: asking for usage changes neither where a
// call goes nor what it is taken to cost.
func TestUsageAskedForDoesNotChangeTheCall(t *testing.T) {
	var calls []*llmlb.Call
	for _, usage := range []string{observe, inject} {
		s := newStage(t, &Handler{Usage: usage}, "a")
		s.attempt = func(a *played) *ending {
			calls = append(calls, a.call)
			return nil
		}
		_ = s.handler.ServeHTTP(newScreen(), posting(t, chatPath, streamed, nil), s)
	}
	if a, b := calls[0], calls[1]; a.Key != b.Key || a.InputTokens != b.InputTokens || a.StreamUsage != b.StreamUsage {
		t.Errorf("read as %+v and %+v", a.Features, b.Features)
	}
}
