package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// answered is what a server says, and how.
type answered struct {
	status                        int
	contentType, body, retryAfter string
}

func (x answered) say(w http.ResponseWriter, _ *http.Request, _ []byte) {
	h := w.Header()
	h.Set("Content-Type", x.contentType)
	if x.retryAfter != "" {
		h.Set("Retry-After", x.retryAfter)
	}
	w.WriteHeader(x.status)
	_, _ = w.Write([]byte(x.body))
}

// When no server is left the client gets what the servers said: status, content
// type and body as they came. An overload is better news than a failure.
func TestTheLastAnswerReachesTheClientUnchanged(t *testing.T) {
	broken := answered{status: 500, contentType: "text/plain; charset=utf-8", body: "CUDA error\n\nat line 7"}
	loading := answered{status: 503, contentType: "application/json", body: `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, retryAfter: "9"}
	full := answered{status: 429, contentType: "application/problem+json", body: `{ "detail" : "full" }`, retryAfter: "4"}
	gateway := answered{status: 502, contentType: "text/html", body: "<h1>Bad Gateway</h1>"}
	for name, c := range map[string]struct{ a, b, want answered }{
		"broken twice":     {broken, broken, broken},
		"broken, full":     {broken, full, full},
		"full, broken":     {full, broken, full},
		"loading, full":    {loading, full, full},
		"full, loading":    {full, loading, answered{status: 503, contentType: loading.contentType, body: loading.body, retryAfter: "4"}},
		"broken elsewhere": {gateway, gateway, gateway},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stream %v", name, stream), func(t *testing.T) {
				g, a, b := steered(t, "retries 1\nqueue {\nmax_wait 0\n}\n")
				a.answers(c.a.say)
				b.answers(c.b.say)
				r := g.post(chat(stream, "", "hi"))
				if r.status != c.want.status || r.body != c.want.body || r.header.Get("Content-Type") != c.want.contentType {
					t.Errorf("the client got %d, %q, %q; want %d, %q, %q",
						r.status, r.header.Get("Content-Type"), r.body, c.want.status, c.want.contentType, c.want.body)
				}
				got, _ := strconv.Atoi(r.header.Get("Retry-After"))
				most, _ := strconv.Atoi(c.want.retryAfter)
				if got > most || got < min(1, most) { // it counts down
					t.Errorf("Retry-After %q, want %q", r.header.Get("Retry-After"), c.want.retryAfter)
				}
				if r.header.Get("X-LLM-Attempts") != "2" || a.count() != 1 || b.count() != 1 {
					t.Errorf("the servers got %d and %d requests, the client is told of %q", a.count(), b.count(), r.header.Get("X-LLM-Attempts"))
				}
			})
		}
	}
}

// What the client itself did wrong is no reason to ask another server, and says
// nothing of the first.
func TestTheClientsOwnMistakesAreNotRetried(t *testing.T) {
	g, a, b := steered(t, "circuit {\nfailures 2\n}\n")
	for i, code := range []int{400, 401, 404, 413, 422, 400, 400} {
		const words = `{"error":{"message":"This model's maximum context length is 4096 tokens.","code":"context_length_exceeded"}}`
		a.answers(status(code, "", words))
		if r := g.post(distinct(i)); r.status != code || r.body != words {
			t.Errorf("status %d: %s; want %d in the server's words", r.status, r.body, code)
		}
	}
	if n := b.count(); n != 0 {
		t.Errorf("%d of them were sent to the other server", n)
	}
	if row := g.endpoint("a"); row.State != "up" || row.Circuit != "closed" || row.ErrorRate != 0 {
		t.Errorf("the server is %s, circuit %s, error rate %v", row.State, row.Circuit, row.ErrorRate)
	}
	a.answers(answer)
	if r := g.post(distinct(100)); r.status != http.StatusOK || r.endpoint() != "a" {
		t.Errorf("status %d from %q", r.status, r.endpoint())
	}
}

// Where no server has said anything, the client gets an answer of the gateway's
// own, in the shape of its API, with nothing in it of addresses or Go.
func TestAnswersOfOurOwnTellNothing(t *testing.T) {
	for name, fail := range map[string]func(http.ResponseWriter, *http.Request, []byte){
		"closed":               closes,
		"closed, after a role": cuts(1),
		"silent":               func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() },
		"nothing but headers": func(w http.ResponseWriter, r *http.Request, _ []byte) {
			w.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(w).Flush()
		},
		"length without a body": func(w http.ResponseWriter, r *http.Request, body []byte) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "500")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			closes(w, r, body)
		},
		"not HTTP": func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, _ = c.Write([]byte("SSH-2.0-OpenSSH_9.6\r\n\r\n"))
				c.Close()
			}
		},
	} {
		for _, mode := range append(failovers, struct{ name, options string }{"off", "failover off\n"}) {
			t.Run(name+"/"+mode.name, func(t *testing.T) {
				g, a, b := steered(t, mode.options+"first_token 100ms 100ms\n")
				a.answers(fail)
				b.answers(fail)
				r := g.post(chat(true, "", "hi"))
				if r.status < 500 || r.header.Get("Content-Type") != "application/json" || !strings.Contains(r.body, `"error"`) {
					t.Errorf("status %d, %s: %s", r.status, r.header.Get("Content-Type"), r.body)
				}
				discreet(t, r, a, b)
			})
		}
	}
}
