package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// mixed is the test's traffic: what each server does to each request is drawn
// from the seed, the request's number and the server's name, so that a request
// meets the same servers however it is tried.
type mixed struct {
	seed uint64
}

// mixedClients is how many requests are open at a time.
const mixedClients = 24

// fates are what a server may do, and how often of a thousand.
var fates = []struct {
	name string
	of   int
	fail func(http.ResponseWriter, *http.Request, []byte)
}{
	{"500", 30, status(http.StatusInternalServerError, "", `{"error":{"message":"boom"}}`)},
	{"400", 20, status(http.StatusBadRequest, "", `{"error":{"message":"what?"}}`)},
	{"overloaded", 3, status(http.StatusTooManyRequests, "", `{"error":{"message":"full"}}`)},
	{"closed", 30, func(w http.ResponseWriter, r *http.Request, body []byte) {
		time.Sleep(60 * time.Millisecond) // at once it would be a stale connection
		closes(w, r, body)
	}},
	{"cut after the role", 20, cuts(1)},
	{"cut after two tokens", 20, cuts(3)},
	{"no finish marker", 10, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents[:4] {
			send(w, e)
		}
	}},
	{"error event first", 20, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		send(w, `{"error":{"message":"boom","code":500}}`)
	}},
	{"error event later", 20, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents[:3] {
			send(w, e)
		}
		send(w, `{"error":{"message":"boom","code":500}}`)
	}},
	{"empty", 10, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
	}},
	{"silent", 1, func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }},
	{"silent after its headers", 1, func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}},
}

// fate draws what the server does to the request; -1 is that it serves it.
func (m mixed) fate(server string, i int) int {
	rnd := rand.New(rand.NewPCG(m.seed, uint64(i)<<8|uint64(server[0])))
	n := rnd.IntN(1000)
	for f := range fates {
		if n -= fates[f].of; n < 0 {
			return f
		}
	}
	return -1
}

// whole is a served stream: who served which request is in every token.
func (m mixed) whole(server string, i int) []string {
	events := []string{`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`}
	for k := range 4 + i%8 {
		events = append(events, fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":"%s-%d-%d "}}]}`, server, i, k))
	}
	return append(events, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, "[DONE]")
}

func (m mixed) document(server string, i int) string {
	return fmt.Sprintf(`{"choices":[{"message":{"content":"%s-%d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}`, server, i)
}

// serve answers for the server.
func (m mixed) serve(server string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, r *http.Request, body []byte) {
		var i int
		if _, after, ok := strings.Cut(string(body), "request "); ok {
			number, _, _ := strings.Cut(after, ";")
			i, _ = strconv.Atoi(number)
		}
		streams := strings.Contains(string(body), `"stream":true`)
		f := m.fate(server, i)
		switch {
		case f >= 0 && !streams && strings.HasPrefix(fates[f].name, "silent"):
			closes(w, r, body) // an answer that comes whole has no deadline
		case f >= 0:
			fates[f].fail(w, r, body)
		case streams:
			w.Header().Set("Content-Type", "text/event-stream")
			for k, e := range m.whole(server, i) {
				if k == 3 && i%3 == 0 {
					select {
					case <-time.After(time.Duration(i%7) * time.Millisecond):
					case <-r.Context().Done():
						return
					}
				}
				send(w, e)
			}
		default:
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, m.document(server, i))
		}
	}
}

// ask is one client: it sends request i, perhaps leaves, and says how it ended.
func (m mixed) ask(t *testing.T, client *http.Client, url string, i int) string {
	rnd := rand.New(rand.NewPCG(m.seed, uint64(i)<<8))
	streams := rnd.IntN(4) > 0
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	leaves := rnd.IntN(8) == 0
	if leaves {
		timer := time.AfterFunc(time.Duration(rnd.IntN(12_000))*time.Microsecond, leave)
		defer timer.Stop()
	}
	text := chat(streams, "", fmt.Sprintf("request %d; %s", i, prose("of many", rnd.IntN(600))))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/chat/completions", strings.NewReader(text))
	if err != nil {
		t.Error(err)
		return "error"
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() == nil {
			t.Errorf("request %d: %v", i, err)
		}
		return "left"
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	got := string(body)
	server := res.Header.Get("X-LLM-Endpoint")
	want := m.document(server, i)
	if streams {
		want = "data: " + strings.Join(m.whole(server, i), "\n\ndata: ") + "\n\n"
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return "left"
	case res.StatusCode != http.StatusOK:
		if err != nil {
			t.Errorf("request %d: status %d, then %v", i, res.StatusCode, err)
		}
		return strconv.Itoa(res.StatusCode)
	case err == nil && got == want:
		return "served"
	case server == "":
		t.Errorf("request %d: nobody is named for %q", i, got)
	}
	f := m.fate(server, i)
	switch {
	case f < 0:
		t.Errorf("request %d: %s served it, the client got %q, %v; want %q", i, server, got, err, want)
	case fates[f].name == "error event later":
		return "error event"
	case fates[f].name == "cut after two tokens" || fates[f].name == "no finish marker":
		if err == nil {
			t.Errorf("request %d: %s cut it, and the client got %q with a clean end", i, server, got)
		}
		if n := strings.Count(got, "data: "); n > 4 {
			t.Errorf("request %d: %s cut it, and the client got %q", i, server, got)
		}
		return "cut"
	default:
		t.Errorf("request %d: the client got what %s did to it (%s): %q, %v", i, server, fates[f].name, got, err)
	}
	return "error"
}

// Ten thousand requests are served, streamed, given up by their clients at random
// moments, failed by the servers in every way, tried again, and refused. Nobody
// gets bytes of two answers or a cut one for a whole one; and when they are over,
// nothing of them is left: no reservation, no goroutine, no descriptor.
func TestTenThousandMixedRequestsLeaveNothingBehind(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 4000
	}
	m := mixed{seed: rand.Uint64()}
	if given := os.Getenv("MIXED_SEED"); given != "" {
		var err error
		if m.seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("MIXED_SEED=%d", m.seed)
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	for i, b := range list {
		b.answers(m.serve(nameOf(i)))
	}
	log := newJournal(t)
	site := fmt.Sprintf(`%sllm_proxy %s %s %s {
engine none
%sfirst_token 2s 2s
circuit {
failures 8
open_for 100ms
}
transport {
dial_timeout 30s
keepalive 300ms
}
}
`, log.directive(), list[0].addr(), list[1].addr(), list[2].addr(), named(list...))
	g := start(t, site)
	g.counting(t, site)

	h1 := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	h2 := &http.Client{Transport: &http.Transport{Protocols: &protocols}}
	hangUp := func() {
		for _, client := range []*http.Client{h1, h2, http.DefaultClient} {
			client.CloseIdleConnections()
		}
	}

	// The level before, when everything has been used once.
	for _, client := range []*http.Client{h1, h2} {
		for i := range 50 {
			m.ask(t, client, g.url, -1-i)
		}
	}
	g.idle(t)
	hangUp()
	goroutines, files := settled(t), descriptors(t)

	var mu sync.Mutex
	ended := map[string]int{}
	numbers := make(chan int)
	var all sync.WaitGroup
	began := time.Now()
	for worker := range mixedClients {
		client := h1
		if worker%4 == 0 {
			client = h2
		}
		all.Go(func() {
			for i := range numbers {
				how := m.ask(t, client, g.url, i)
				mu.Lock()
				ended[how]++
				mu.Unlock()
			}
		})
	}
	for i := range n {
		numbers <- i
	}
	close(numbers)
	all.Wait()
	t.Logf("%d requests in %v: %v", n, time.Since(began).Round(time.Millisecond), ended)
	if ended["served"] < n/3 || ended["cut"] == 0 || ended["left"] == 0 || ended["error event"] == 0 || ended["400"] == 0 {
		t.Error("the traffic was not what it was meant to be")
	}

	g.idle(t)
	eventually(t, "Caddy to have no request in flight", func() bool { return g.sum("caddy_http_requests_in_flight") == 0 })
	attempts := g.outcomes()
	t.Logf("attempts: %v", attempts)
	g.consistent(t, log, list, attempts, ended)
	for _, name := range []string{"caddy_llmlb_tokens_in_flight", "caddy_llmlb_calls_in_flight"} {
		if left := g.sum(name); left != 0 {
			t.Errorf("%s is %v when all is over", name, left)
		}
	}

	t.Cleanup(func() {
		if t.Failed() {
			var stacks strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&stacks, 1)
			t.Logf("%d files are open, %d goroutines:\n%s", descriptors(t), runtime.NumGoroutine(), stacks.String())
		}
	})
	eventually(t, fmt.Sprintf("goroutines (%d before) and files (%d before) to be given back", goroutines, files), func() bool {
		hangUp()
		return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files
	})
}

// consistent compares what the clients saw, what the gateway counted and logged,
// and what the servers got.
func (g *gateway) consistent(t *testing.T, log journal, list []*backend, attempts, ended map[string]int) {
	t.Helper()
	calls, tried, followed := map[any]int{}, 0, 0
	for _, entry := range log.entries(t, 0) {
		calls[entry["llm_outcome"]]++
		if n, _ := entry["llm_attempts"].(float64); n > 0 {
			tried += int(n)
			followed += int(n) - 1
		}
	}
	t.Logf("calls: %v", calls)
	if n := calls[nil]; n > 0 {
		t.Errorf("%d requests have no outcome in the log", n)
	}
	if sum := total(attempts); sum != tried {
		t.Errorf("the metrics count %d attempts, the log %d", sum, tried)
	}
	if again := int(g.sum("caddy_llmlb_retries_total")); again != followed {
		t.Errorf("the metrics count %d repeated attempts, the log %d", again, followed)
	}
	// Clients leave, and on a busy machine time is up, between the choice of a
	// server and the request's arrival there. A connection that closes as the
	// request is sent is taken for a stale one, twice at each server, and the
	// request is sent again.
	got, lost := hits(list...), attempts["client_gone"]+attempts["first_token_timeout"]+attempts["unreachable"]
	if got > tried+2*len(list)+mixedClients || got < tried-lost {
		t.Errorf("the servers got %d requests in %d attempts, of which %d may not have arrived", got, tried, lost)
	}
	if attempts["served"] < ended["served"]+ended["400"] {
		t.Errorf("%d clients were served in %d attempts", ended["served"]+ended["400"], attempts["served"])
	}
	if attempts["truncated"] < ended["cut"] {
		t.Errorf("%d clients saw a cut stream, %d were counted", ended["cut"], attempts["truncated"])
	}
	for _, outcome := range []string{"served", "truncated", "engine_error", "overloaded", "first_token_timeout", "client_gone"} {
		if attempts[outcome] == 0 {
			t.Errorf("no attempt ended as %s: the traffic was not what it was meant to be", outcome)
		}
	}
}

// sum adds up a counter or a gauge over all its labels.
func (g *gateway) sum(name string) (sum float64) {
	g.t.Helper()
	for _, m := range g.families()[name].GetMetric() {
		sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
	}
	return sum
}

// counting loads the site again with Caddy's own metrics of its HTTP servers on.
func (g *gateway) counting(t *testing.T, site string) {
	t.Helper()
	text, err := g.adapt(site)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	config["apps"].(map[string]any)["http"].(map[string]any)["metrics"] = map[string]any{}
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	g.loads.Add(1)
	if err := caddy.Load(text, true); err != nil {
		t.Fatal(err)
	}
}

// descriptors counts the open files of this process.
func descriptors(t *testing.T) int {
	t.Helper()
	dir, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("this system does not tell open files")
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(dir)
}
