package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// leaving is a moment at which a client leaves.
type leaving struct {
	name, options string
	busy          bool                   // the server has something else to do
	half          bool                   // only half of the body is sent
	parts         []part                 // what the servers do, one after the other; the last one hears of the end
	when          func(*leavingRig) bool // whether it is time to leave
	attempts      map[string]int         // how the attempts ended
	outcome       string                 // of the request
	spent         bool                   // whether an engine has worked for nothing
}

// leavingRig is what a leaving may look at.
type leavingRig struct {
	g     *gateway
	a, b  *backend
	heard chan struct{} // closed when the client has something of the answer
}

func (r *leavingRig) hears() bool {
	select {
	case <-r.heard:
		return true
	default:
		return false
	}
}

func (r *leavingRig) arrived(n int) bool { return hits(r.a, r.b) == n }

var leavings = []leaving{
	{
		name: "as the body is read", half: true, outcome: "client_gone",
		when: func(r *leavingRig) bool { return r.g.bodyBytes() > 0 },
	},
	{
		name: "in the queue", busy: true, outcome: "client_gone",
		when: func(r *leavingRig) bool { return r.g.queued() == 1 },
	},
	{
		name: "before the headers", outcome: "client_gone", spent: true,
		parts:    []part{plays("", nil, falls)},
		when:     func(r *leavingRig) bool { return r.arrived(1) },
		attempts: map[string]int{"client_gone": 1},
	},
	{
		name: "before the first token", outcome: "client_gone", spent: true,
		parts: []part{plays(eventStream, events(answerEvents[0]), falls)},
		when: func(r *leavingRig) bool {
			n, _ := r.g.histogram(firstByteMetric)
			return n == 1
		},
		attempts: map[string]int{"client_gone": 1},
	},
	{
		name: "within the stream", outcome: "client_gone", spent: true,
		parts:    []part{plays(eventStream, events(answerEvents[:3]...), falls)},
		when:     (*leavingRig).hears,
		attempts: map[string]int{"client_gone": 1},
	},
	{
		name: "as it is tried again", outcome: "client_gone", spent: true,
		parts:    []part{func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }, plays("", nil, falls)},
		when:     func(r *leavingRig) bool { return r.arrived(2) },
		attempts: map[string]int{"engine_error": 1, "client_gone": 1},
	},
	{
		name: "behind a heartbeat", options: "heartbeat 50ms\n", outcome: "client_gone", spent: true,
		parts:    []part{plays(eventStream, events(answerEvents[0]), falls)},
		when:     func(r *leavingRig) bool { return r.hears() && r.arrived(1) },
		attempts: map[string]int{"client_gone": 1},
	},
}

// Whenever a client leaves, its request ends: at the server, if it is at one, in the
// queue, in the books. What an engine has computed for it is counted as lost, and
// nothing else is.
func TestAClientMayLeaveAtAnyMoment(t *testing.T) {
	for _, l := range leavings {
		for _, protocol := range protocols {
			t.Run(l.name+"/"+protocol, func(t *testing.T) {
				r := &leavingRig{a: newBackend(t), b: newBackend(t), heard: make(chan struct{})}
				limit := ""
				if l.busy {
					limit = "max_concurrent 1\n"
				}
				r.g = secure(t, fmt.Sprintf("llm_proxy %s %s {\n%s%s%sendpoint %s {\nname a\n%s}\nendpoint %s {\nname b\n%s}\n}\n",
					r.a.addr(), r.b.addr(), fast, patient, l.options, r.a.addr(), limit, r.b.addr(), limit))
				ended := make(chan struct{}, 8)
				for i, p := range l.parts {
					if i == len(l.parts)-1 {
						l.parts[i] = func(w http.ResponseWriter, q *http.Request, body []byte) {
							p(w, q, body)
							ended <- struct{}{}
						}
						defer func() { l.parts[i] = p }()
					}
				}
				others := 0
				finish := func() {}
				if l.busy {
					others, finish = 2, r.occupy(t)
				} else if len(l.parts) > 0 {
					inTurn([]*backend{r.a, r.b}, l.parts...)
				}

				body := chat(true, "", prose("a prompt that costs", 4000))
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				var content io.Reader = strings.NewReader(body)
				if l.half {
					content = &halfway{Reader: strings.NewReader(body[:len(body)/2]), ctx: ctx}
				}
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.g.url+chatPath, content)
				if err != nil {
					t.Fatal(err)
				}
				req.ContentLength = int64(len(body))
				req.Header.Set("Content-Type", "application/json")
				client, left := r.g.over(t, protocol), make(chan struct{})
				go func() {
					defer close(left)
					res, err := client.Do(req)
					if err != nil {
						return
					}
					defer res.Body.Close()
					if _, err := res.Body.Read(make([]byte, 1)); err == nil {
						close(r.heard)
					}
					_, _ = io.Copy(io.Discard, res.Body)
				}()
				eventually(t, "the moment to come", func() bool { return l.when(r) })
				leave()
				arrives(t, "the client to have left", left)
				if l.spent {
					arrives(t, "the request to end at the server", ended)
				}
				eventually(t, "the request to be counted", func() bool {
					return r.g.counter("caddy_llmlb_requests_total", "outcome", l.outcome) == 1
				})
				if n := r.g.queued(); n != 0 {
					t.Errorf("%d requests wait when the client has left", n)
				}
				finish()
				want := maps.Clone(l.attempts)
				if others > 0 {
					want = map[string]int{"served": others}
				} else if want == nil {
					want = map[string]int{}
				}
				r.g.ended(want)
				families := r.g.families()
				if n := int(counterOf(families, "caddy_llmlb_requests_total")); n != 1+others {
					t.Errorf("%d requests are counted, want %d", n, 1+others)
				}
				for _, gauge := range []string{"queue_requests", "queue_tokens", "body_bytes", "calls_in_flight", "tokens_in_flight"} {
					if v := counterOf(families, "caddy_llmlb_"+gauge); v != 0 {
						t.Errorf("%s is %v in the end, want 0", gauge, v)
					}
				}
				lost := counterOf(families, "caddy_llmlb_cancelled_tokens_total")
				switch most := float64(len(body)) / 2; {
				case l.spent && (lost < 500 || lost > most):
					t.Errorf("%v tokens are counted as lost, want about %d", lost, len(body)/4)
				case !l.spent && lost != 0:
					t.Errorf("%v tokens are counted as lost, and no engine has worked", lost)
				}
				time.Sleep(20 * time.Millisecond) // another attempt would come now
				if n := hits(r.a, r.b); n != others+max(0, len(l.parts)) {
					t.Errorf("%d requests reached the servers, want %d", n, others+len(l.parts))
				}
			})
		}
	}
}

// occupy has a stream run on each of the servers until finish.
func (r *leavingRig) occupy(t *testing.T) (finish func()) {
	t.Helper()
	client := r.g.over(t, "h1")
	openA, openB := gate(r.a), gate(r.b)
	var running []*http.Response
	for i := range 2 {
		res, err := client.Post(r.g.url+chatPath, "application/json", strings.NewReader(chat(true, "", fmt.Sprint("runs ", i))))
		if err != nil {
			t.Fatal(err)
		}
		running = append(running, res)
	}
	return func() {
		openA()
		openB()
		for _, res := range running {
			if got := read(t, res).body; got != streamed() {
				t.Errorf("a stream beside it was cut or changed: %q", got)
			}
		}
	}
}
