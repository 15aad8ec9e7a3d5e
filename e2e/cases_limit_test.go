package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
)

// A body of exactly max_body bytes is served, and one byte more is not: with an
// error of the API's shape, and no server is asked.
func TestMaxBodyIsExact(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%smax_body 65536\n}\n", a.addr(), fast))
	for version, client := range versions(t) {
		for framing, body := range framings {
			for _, tc := range []struct{ size, status int }{
				{65_535, http.StatusOK},
				{65_536, http.StatusOK},
				{65_537, http.StatusRequestEntityTooLarge},
			} {
				t.Run(fmt.Sprintf("%s, %s, %d bytes", version, framing, tc.size), func(t *testing.T) {
					hits := a.count()
					text := ofLength(tc.size)
					res, err := client.Post(g.url+"/v1/chat/completions", "application/json", body(text))
					if err != nil {
						t.Fatal(err)
					}
					r := read(t, res)
					if r.status != tc.status {
						t.Fatalf("status %d, want %d: %s", r.status, tc.status, r.body)
					}
					if got := "HTTP/" + strconv.Itoa(res.ProtoMajor); !strings.HasPrefix(version, got) {
						t.Errorf("spoke %s", res.Proto)
					}
					if tc.status == http.StatusOK {
						if got := a.lastBody(); a.count() != hits+1 || string(got) != text {
							t.Errorf("%d bytes arrived in %d requests", len(got), a.count()-hits)
						}
						return
					}
					if a.count() != hits {
						t.Error("the server was asked")
					}
					var e struct {
						Error struct{ Message, Type, Code string }
					}
					if err := json.Unmarshal([]byte(r.body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" || e.Error.Code != "body_too_large" ||
						r.header.Get("Content-Type") != "application/json" {
						t.Errorf("%s %s, want an error of OpenAI's shape (%v)", r.header.Get("Content-Type"), r.body, err)
					}
				})
			}
		}
	}
}

// A client that asks before it sends its body is told to go on, and one whose
// body would not be taken gets its answer in place of that, and need not send it.
func TestExpectContinueIsAnswered(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%smax_body 65536\n}\n", a.addr(), fast))
	body := chat(false, "", "hi")

	t.Run("a body that is taken", func(t *testing.T) {
		c := g.dial(t)
		in := bufio.NewReader(c)
		io.WriteString(c, g.head("POST", "/v1/chat/completions", "Content-Type: application/json", fmt.Sprint("Content-Length: ", len(body)), "Expect: 100-continue"))
		// Nothing of the body is sent before the answer, so that a gateway which
		// waits for it gets none.
		line, err := in.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("read %q, %v; want 100 Continue", line, err)
		}
		if blank, err := in.ReadString('\n'); err != nil || blank != "\r\n" {
			t.Fatalf("read %q, %v after it", blank, err)
		}
		io.WriteString(c, body)
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, res); r.status != http.StatusOK || string(a.lastBody()) != body {
			t.Errorf("status %d, arrived as %q", r.status, a.lastBody())
		}
	})

	t.Run("a body over max_body", func(t *testing.T) {
		hits := a.count()
		c := g.dial(t)
		in := bufio.NewReader(c)
		io.WriteString(c, g.head("POST", "/v1/chat/completions", "Content-Type: application/json", "Content-Length: 65537", "Expect: 100-continue"))
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		if r := read(t, res); r.status != http.StatusRequestEntityTooLarge || !strings.Contains(r.body, `"body_too_large"`) {
			t.Errorf("status %d: %s; want 413 and no 100 before it", r.status, r.body)
		}
		if !res.Close {
			t.Error("the connection is held open, though nobody can tell whether the body comes")
		}
		if rest, err := io.ReadAll(in); err != nil || len(rest) > 0 {
			t.Errorf("then came %q, %v; want the end", rest, err)
		}
		if a.count() != hits {
			t.Error("the server was asked")
		}
	})
}

// Two hundred thousand brackets are answered with an error. They take no memory
// that matters, and the next request is served.
func TestDeepNestingIsRefused(t *testing.T) {
	a := newBackend(t)
	deep := `{"x":` + strings.Repeat("[", 200_000) + "0" + strings.Repeat("]", 200_000) + `,"model":"m"}`
	for name, site := range map[string]string{
		"llm_proxy":    fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast),
		"policy alone": fmt.Sprintf("reverse_proxy %s {\nlb_policy llm {\n%s}\n}\n", a.addr(), fast),
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, site)
			if r := g.post(chat(false, "", "hi")); r.status != http.StatusOK {
				t.Fatalf("status %d", r.status)
			}
			before := resident(t)
			for range 3 {
				// The policy alone can refuse nothing: the server answers.
				r := g.post(deep)
				if name == "llm_proxy" && (r.status != http.StatusBadRequest || !strings.Contains(r.body, "nested")) {
					t.Errorf("status %d: %.200s; want 400", r.status, r.body)
				}
				if next := g.post(chat(false, "", "hi")); next.status != http.StatusOK {
					t.Errorf("the next request: status %d: %s", next.status, next.body)
				}
			}
			if grown := resident(t) - before; grown > 64<<20 {
				t.Errorf("%d MiB more of memory", grown>>20)
			}
			if got := g.pools()[0].Endpoints[0]; got.State != "up" || got.ErrorRate != 0 {
				t.Errorf("the server is %s with an error rate of %v", got.State, got.ErrorRate)
			}
		})
	}
}

// resident is the memory that this process, and the gateway in it, has.
func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip("no /proc on this system")
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}
