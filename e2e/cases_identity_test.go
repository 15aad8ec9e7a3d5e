package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowBody is a body that comes in pieces, and may break off.
type slowBody struct {
	rest  []byte
	r     *rand.Rand
	cutAt int
	given int
}

func (b *slowBody) Read(p []byte) (int, error) {
	if b.cutAt > 0 && b.given >= b.cutAt {
		return 0, errors.New("the client breaks off")
	}
	if len(b.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p, b.rest[:min(len(b.rest), 1+b.r.IntN(70_000))])
	b.rest, b.given = b.rest[n:], b.given+n
	if b.r.IntN(4) == 0 {
		time.Sleep(time.Duration(b.r.IntN(1000)) * time.Microsecond)
	}
	return n, nil
}

// ask sends one request and tells how it ended for its client.
func (x *identical) ask(client *http.Client, url string, n int) string {
	s := seeded{x.seed, n}
	r := rand.New(rand.NewPCG(s.seed, uint64(n)^1<<62))
	body := s.sent()
	d := s.draw()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(5) == 0 {
		defer time.AfterFunc(time.Duration(r.IntN(20_000))*time.Microsecond, cancel).Stop()
	}
	var from io.Reader = bytes.NewReader(body)
	if k := r.IntN(4); k == 0 {
		b := &slowBody{rest: body, r: r}
		if r.IntN(3) == 0 {
			b.cutAt = 1 + r.IntN(len(body))
		}
		from = b
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", from)
	if err != nil {
		x.t.Error(err)
		return "?"
	}
	if r.IntN(2) == 0 && req.ContentLength == 0 {
		req.ContentLength = int64(len(body))
	}
	req.GetBody = nil
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Number", strconv.Itoa(n))
	if d.zipped {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if r.IntN(6) == 0 {
		req.Header.Set("Expect", "100-continue")
	}
	res, err := client.Do(req)
	if err != nil {
		return "failed"
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return "broken off"
	}
	if res.StatusCode != http.StatusOK {
		if res.StatusCode == http.StatusBadRequest {
			x.t.Errorf("request %d: %d: %s", n, res.StatusCode, text)
		}
		return strconv.Itoa(res.StatusCode)
	}
	want := strconv.Itoa(n) + " " + sumOf(s.arrives(x.injected))
	got := string(text)
	if d.stream {
		var b strings.Builder
		for _, part := range strings.Split(got, `"content":"`)[1:] {
			piece, _, _ := strings.Cut(part, `"`)
			b.WriteString(piece)
		}
		if !strings.Contains(got, "[DONE]") {
			if !strings.Contains(got, `"error"`) {
				x.t.Errorf("request %d: no end: %q", n, got)
			}
			return "cut"
		}
		if strings.Contains(got, "usage") {
			x.t.Errorf("request %d: an answer with usage that nobody asked for", n)
		}
		if strings.Contains(got, `"error"`) {
			return "told"
		}
		got = b.String()
		if got == strconv.Itoa(n)+" " {
			return "early"
		}
	} else if !strings.Contains(got, `"content":"`+want+`"`) {
		x.t.Errorf("request %d: got %q, want %q", n, got, want)
		return "wrong"
	} else {
		return "served"
	}
	if got != want {
		x.t.Errorf("request %d: got %q, want %q", n, got, want)
	}
	return "served"
}

// Requests of all lengths come over all protocols at once, whole and in pieces, are
// given up by their clients at any moment and failed by their servers at any byte.
// Bodies lie in memory that goes from one request to the next. Still a server gets the
// bytes of its own request and no others, and of those all that it is told to get; a
// client gets its own answer; and no request is served twice.
func TestEveryByteIsItsOwn(t *testing.T) {
	for _, tc := range []struct{ name, scheme, options string }{
		{"h1", "", ""},
		{"h2c", "h2c://", ""},
		{"h1, inject, aliases", "", "usage inject\nmodel other real\n"},
		{"h1, heartbeat, unsent", "", "heartbeat 100ms\nfailover unsent\n"},
		{"h1, policy alone", "", "alone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := &identical{t: t, seed: rand.Uint64(), served: map[int]int{}, fated: map[string]int{}, injected: strings.Contains(tc.options, "inject")}
			t.Logf("seed %d", x.seed)
			var addrs []string
			for range 4 {
				l := listen(t)
				var p http.Protocols
				p.SetHTTP1(true)
				p.SetUnencryptedHTTP2(true)
				srv := &http.Server{Handler: http.HandlerFunc(x.serve), Protocols: &p, IdleTimeout: 30 * time.Millisecond}
				// So little of a body is on its way at a time that most of it is sent behind
				// an early answer. Over HTTP/1.1 the system takes in a megabyte at once.
				srv.HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 64 << 10}
				go func() { _ = srv.Serve(l) }()
				t.Cleanup(func() { srv.Close() })
				addrs = append(addrs, tc.scheme+l.Addr().String())
			}
			dead := listen(t)
			addrs = append(addrs, tc.scheme+dead.Addr().String())
			dead.Close()
			alias := ""
			if !strings.Contains(tc.options, "model") {
				alias = "model other real\n"
			}
			site := fmt.Sprintf("llm_proxy %s {\nengine none\nfirst_token 5s 5s\ncircuit off\nretries 4\n%s%s}\n", strings.Join(addrs, " "), tc.options, alias)
			if tc.options == "alone" {
				site = fmt.Sprintf("reverse_proxy %s {\nlb_policy llm {\nengine none\n}\ntransport llm\nlb_retries 3\n}\n", strings.Join(addrs, " "))
			}
			g := secure(t, site)
			clients := []*http.Client{g.over(t, "h1"), g.over(t, "h1"), g.over(t, "h2"), g.over(t, "h3")}
			numbers := make(chan int)
			ended := map[string]int{}
			var mu sync.Mutex
			var wg sync.WaitGroup
			for w := range 24 {
				wg.Go(func() {
					for n := range numbers {
						if tc.options == "alone" {
							if (seeded{x.seed, n}).draw().alias {
								continue
							}
						}
						how := x.ask(clients[w%len(clients)], g.url, n)
						mu.Lock()
						ended[how]++
						mu.Unlock()
					}
				})
			}
			count := 500
			if testing.Short() {
				count = 200
			}
			for n := range count {
				numbers <- n
			}
			close(numbers)
			wg.Wait()
			g.idle(t)
			x.mu.Lock() // a server may still be reading what nobody waits for
			defer x.mu.Unlock()
			t.Logf("clients: %v; servers: %v; %d whole, %d parts", ended, x.fated, x.wholes, x.parts)
			for n, k := range x.served {
				if k > 1 {
					t.Errorf("request %d was served %d times", n, k)
				}
			}
		})
	}
}
