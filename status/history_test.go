package status

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// made is a pool of so many servers as it could be seen.
func made(n int) sight {
	s := sight{PoolStatus: llmlb.PoolStatus{Pool: "default"}, counts: make(map[string]*counts)}
	for i := range n {
		one, kv, ttft := 1.0, 0.5, 100.0
		e := llmlb.EndpointStatus{
			Name: fmt.Sprintf("gpu-%d", i), Address: fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250), State: "up", Share: 1,
			Running: &one, Waiting: &one, KVUsage: &kv, TTFTMillis: &ttft, TokensPerSecond: &ttft, PrefillTokens: 10, OutputTokens: 5,
		}
		s.Endpoints = append(s.Endpoints, e)
		s.counts[e.Address] = &counts{ttft: make([]uint64, len(llmlb.TTFTBounds)+1)}
	}
	return s
}

var noon = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// The history has a place for every five seconds of the last 15 minutes: what was
// not seen is a gap there, and what is older is gone.
func TestHistoryKeepsItsTimes(t *testing.T) {
	var h history
	at := func(after time.Duration) float32 {
		return h.pools["default"].ring[seriesTokens][stepOf(noon.Add(after))%steps]
	}
	take := func(after time.Duration, servers int) {
		if now := noon.Add(after); h.due(now) {
			h.take(now, []sight{made(servers)})
		}
	}
	take(0, 1)
	take(2*time.Second, 9) // the same step
	take(5*time.Second, 2)
	take(20*time.Second, 3) // the machine slept
	for after, want := range map[time.Duration]float32{0: 15, 5 * time.Second: 30, 20 * time.Second: 45} {
		if got := at(after); got != want {
			t.Errorf("%v after the beginning there were %v tokens in flight, want %v", after, got, want)
		}
	}
	for _, after := range []time.Duration{10 * time.Second, 15 * time.Second, -5 * time.Second} {
		if got := at(after); !math.IsNaN(float64(got)) {
			t.Errorf("%v after the beginning nobody looked, and it tells %v", after, got)
		}
	}
	take(15*time.Minute, 4)
	if got := at(0); got != 60 {
		t.Errorf("15 minutes later the place holds %v, want 60", got)
	}
	take(40*time.Minute, 1)
	var text []any
	if err := json.Unmarshal(appendSeries(nil, &h.pools["default"].ring[seriesTokens], h.last), &text); err != nil {
		t.Fatal(err)
	}
	for i, x := range text {
		if (x == nil) != (i < steps-1) {
			t.Errorf("point %d of %d is %v: what is older than 15 minutes is told", i, len(text), x)
		}
	}
	if text[steps-1] != 15.0 {
		t.Errorf("the newest point is %v, want 15", text[steps-1])
	}
	// A clock that is set back does not bring back what was never seen.
	take(10*time.Minute, 2)
	if got := at(10 * time.Minute); got != 30 {
		t.Errorf("after the clock was set back there are %v tokens, want 30", got)
	}
}

// Of what only counts up the history has what came since it began to look, and it is
// not misled by servers that leave and come.
func TestHistoryCountsWhatCameSince(t *testing.T) {
	var h history
	s := made(2)
	first, second := s.counts[s.Endpoints[0].Address], s.counts[s.Endpoints[1].Address]
	first.decisions[0], first.ttft[4] = 1000, 1000
	s.Refusals = map[string]uint64{"queue_full": 7}
	h.take(noon, []sight{s})

	s = made(2)
	n, m := *first, *second
	n.decisions[0], n.ttft[4] = 1003, 1004 // four first tokens within 60 to 80 ms
	m.decisions[2], m.ttft[9] = 1, 1
	s.counts[s.Endpoints[0].Address], s.counts[s.Endpoints[1].Address] = &n, &m
	s.Refusals = map[string]uint64{"queue_full": 9}
	h.take(noon.Add(step), []sight{s})
	h.take(noon.Add(2*step), []sight{made(0)}) // both left
	p := h.pools["default"]
	decided, refused := p.recent()
	if decided[reasons[0].String()] != 3 || decided[reasons[2].String()] != 1 || len(decided) != 2 || refused != 2 {
		t.Errorf("there were %v choices and %d refusals, want 3, 1 and 2", decided, refused)
	}
	if got := p.ring[seriesTTFT][stepOf(noon.Add(step))%steps]; got < 60 || got > 80 {
		t.Errorf("the median of first tokens is %v ms, want between 60 and 80", got)
	}
	if got := p.ring[seriesTTFT][stepOf(noon)%steps]; !math.IsNaN(float64(got)) {
		t.Errorf("the first look tells a median of %v ms, of what was before it", got)
	}
	if len(p.endpoints) != 0 {
		t.Errorf("%d servers that have left are remembered", len(p.endpoints))
	}
}

// The memory of the history is bounded, however many servers there are, and is what
// the package says: 3.5 KB for each.
func TestHistoryIsBounded(t *testing.T) {
	var h history
	s := made(maxHistories + 500)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	h.take(noon, []sight{s})
	runtime.GC()
	runtime.ReadMemStats(&after)
	if got := len(h.pools["default"].endpoints); got != maxHistories {
		t.Errorf("there is a history of %d servers, want %d", got, maxHistories)
	}
	each := float64(after.HeapAlloc-before.HeapAlloc) / maxHistories
	if each > 3800 {
		t.Errorf("a server's history takes %.0f bytes, want at most 3,800", each)
	}
	t.Logf("%.0f bytes for each of %d servers", each, maxHistories)
	runtime.KeepAlive(&h)
}

// The page asks for the history of those servers whose plots it shows.
func TestHistoryOfServers(t *testing.T) {
	s := start(t, "llm_status /status*\n")
	r := s.do(http.MethodGet, "/status/history?pool=default&endpoint=gpu-1&endpoint=nobody", "")
	var got struct {
		At        int64
		Endpoints map[string]struct {
			More   more
			Series map[string][]*float64
		}
	}
	if err := json.Unmarshal([]byte(r.body), &got); err != nil || len(got.Endpoints) != 1 {
		t.Fatalf("answered %d %s (%v), want the one server that there is", r.status, r.body, err)
	}
	for _, name := range seriesNames[:endpointSeries] {
		if n := len(got.Endpoints["gpu-1"].Series[name]); n != steps {
			t.Errorf("series %s has %d points, want %d", name, n, steps)
		}
	}
	for query, want := range map[string]string{
		"":                         "pool",
		"pool=default":             "endpoint",
		"pool=default&endpont=a":   "endpont",
		"pool=a&pool=b&endpoint=a": "pool",
		"pool=default&endpoint=a" + strings.Repeat("&endpoint=a", maxAsked): "endpoint",
		"pool=%zz&endpoint=a":                   "query",
		"pool=" + strings.Repeat("x", maxQuery): "bytes",
	} {
		if r := s.do(http.MethodGet, "/status/history?"+query, ""); r.status != http.StatusBadRequest || !strings.Contains(r.body, want) {
			t.Errorf("%.40q is answered %d %s, want 400 that says %q", query, r.status, r.body, want)
		}
	}
}

func FuzzHistoryQuery(f *testing.F) {
	for _, s := range []string{"pool=a&endpoint=b", "", "endpoint=b", "pool=a&endpoint=b&endpoint=", "%", "pool=a;endpoint=b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, names, err := readAsked(query); err == nil && (len(names) == 0 || len(names) > maxAsked || len(query) > maxQuery) {
			t.Errorf("%q is taken, with %d names", query, len(names))
		}
	})
}
