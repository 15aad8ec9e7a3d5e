package status

import (
	"encoding/json"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// pools is the data of an event "pools".
type poolsData struct {
	Names []string
	Pools []struct {
		Pool  string
		Names []string
		Head  *head
		Rows  []map[string]any
	}
}

func (d *poolsData) row(name string) map[string]any {
	for _, p := range d.Pools {
		for _, r := range p.Rows {
			if r["name"] == name {
				return r
			}
		}
	}
	return nil
}

func parsePools(t *testing.T, data string) *poolsData {
	t.Helper()
	d := new(poolsData)
	if err := json.Unmarshal([]byte(data), d); err != nil {
		t.Fatalf("reading %s: %v", data, err)
	}
	return d
}

// A page that opens is told everything: who it talks to, the last 15 minutes, and
// every server. After that it is told what changes, and nothing else.
func TestStreamTellsAllAndThenWhatChanges(t *testing.T) {
	s := start(t, withActions)
	eventually(t, "scrapes of both", func() bool { return strings.Count(s.do(http.MethodGet, "/status/pools", "").body, `"running":3`) == 2 })
	p := s.open()
	if kind := p.res.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Errorf("the stream's type is %q", kind)
	}
	hello := p.next("hello", nil)
	if !strings.Contains(hello, `"actions":true`) || strings.Contains(hello, token()) {
		t.Errorf("hello is %s, want actions and no token", hello)
	}
	var past struct {
		At    int64
		Pools map[string]map[string][]*float64
	}
	if err := json.Unmarshal([]byte(p.next("history", nil)), &past); err != nil {
		t.Fatal(err)
	}
	if n := len(past.Pools["default"]); n != int(poolSeries) {
		t.Errorf("the history has %d series, want %d", n, poolSeries)
	}
	for name, series := range past.Pools["default"] {
		if len(series) != steps {
			t.Errorf("series %s has %d points, want %d", name, len(series), steps)
		}
	}
	first := parsePools(t, p.next("pools", nil))
	if len(first.Names) != 1 || len(first.Pools) != 1 || len(first.Pools[0].Rows) != 2 || first.Pools[0].Head == nil {
		t.Fatalf("the first event tells %+v, want one pool with two rows", first)
	}
	row := first.row("gpu-1")
	if row["state"] != "up" || row["running"] != 3.0 || row["kv"] != 0.25 {
		t.Errorf("gpu-1 is %v, want it up with 3 running and a quarter of its memory", row)
	}

	endpoint(t, "gpu-2").Drain(time.Now(), llmlb.DrainOrder{})
	next := parsePools(t, p.next("pools", func(d string) bool { return strings.Contains(d, "gpu-2") }))
	if got := next.row("gpu-2")["state"]; got != "draining" && got != "drained" {
		t.Errorf("gpu-2 is told as %v after its drain", got)
	}
	if next.row("gpu-1") != nil || next.Pools[0].Names != nil || next.Pools[0].Head != nil {
		t.Errorf("what has not changed is told again: %+v", next)
	}
}

// Names are all that a page tells of servers, also in reasons, unless addresses are
// asked for.
func TestAddressesAreHidden(t *testing.T) {
	s := start(t, "llm_status /status*\nllm_status /open* {\naddresses\n}\n")
	address := s.servers[0].Listener.Addr().String()
	s.servers[1].Close()
	eventually(t, "the dead server to be down", func() bool { return stateOf(t, "gpu-2") == "down" })
	p := s.open()
	for _, told := range []string{
		p.next("pools", nil), s.do(http.MethodGet, "/status/pools", "").body,
		s.do(http.MethodGet, "/status/history?pool=default&endpoint=gpu-1", "").body,
	} {
		if strings.Contains(told, "127.0.0.1") {
			t.Errorf("an address is told: %s", told)
		}
		if !strings.Contains(told, "gpu-1") {
			t.Errorf("the server's name is not told: %s", told)
		}
	}
	if told := s.do(http.MethodGet, "/open/pools", "").body; !strings.Contains(told, `"address":"`+address+`"`) {
		t.Errorf("with 'addresses' there is none of %s: %s", address, told)
	}
	if got := nameless("dialing 10.0.0.1:8000 failed", "gpu-1", "10.0.0.1:8000"); got != "dialing gpu-1 failed" {
		t.Errorf("a reason with an address becomes %q", got)
	}
}

// A reload ends every stream at once, far within Caddy's grace period, the page
// connects again, and the history is the same one.
func TestReloadEndsStreams(t *testing.T) {
	s := start(t, withActions)
	p := s.open()
	p.next("history", nil)
	watch := acquireWatch()
	defer releaseWatch()
	for range 3 {
		s.load(withActions)
		p.ended(5 * time.Second)
		p = s.open()
		p.next("pools", nil)
	}
	if again := acquireWatch(); again != watch {
		t.Error("the reload began the history anew")
	}
	releaseWatch()
}

// A site that compresses its answers does not hold the stream back.
func TestStreamThroughEncode(t *testing.T) {
	s := start(t, "encode gzip\nllm_status /status*\n")
	p := s.open()
	p.next("pools", nil)
	endpoint(t, "gpu-2").Drain(time.Now(), llmlb.DrainOrder{})
	p.next("pools", func(d string) bool { return strings.Contains(d, "gpu-2") })
}

// A configuration that cannot be loaded ends nothing.
func TestFailedReloadLeavesStreamsAlone(t *testing.T) {
	s := start(t, withActions)
	p := s.open()
	p.next("pools", nil)
	if err := s.try("llm_status /status* {\npool nothing\n}\n"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Fatalf("a page of a pool that there is not loads, or says %v", err)
	}
	endpoint(t, "gpu-2").Drain(time.Now(), llmlb.DrainOrder{})
	p.next("pools", func(d string) bool { return strings.Contains(d, "gpu-2") })
}

// As many pages as may be open are, and the next is told to come back. One that is
// closed makes room, and nothing stays behind.
func TestStreamsAreBounded(t *testing.T) {
	s := start(t, "llm_status /status*\n")
	s.open().close()
	before := runtime.NumGoroutine()
	pages := make([]*page, maxStreams)
	for i := range pages {
		pages[i] = s.open()
		pages[i].next("hello", nil)
	}
	p, res := s.tryOpen()
	if p != nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
		t.Errorf("page %d is answered %s, want 503 with Retry-After", maxStreams+1, res.Status)
	}
	for _, p := range pages {
		p.close()
	}
	eventually(t, "room for another page", func() bool {
		p, _ := s.tryOpen()
		if p != nil {
			p.close()
		}
		return p != nil
	})
	eventually(t, "all goroutines to end", func() bool { return runtime.NumGoroutine() <= before+5 })
}

// Only the pools named are shown, by whatever way they are asked for.
func TestOnlyNamedPoolsAreShown(t *testing.T) {
	const other = "handle /x {\nllm_proxy 127.0.0.1:1 {\npool other\nendpoint 127.0.0.1:1 {\nname hidden\n}\n}\n}\n"
	s := start(t, "llm_status /status* {\npool default\nallow_actions unguarded\n}\n"+other)
	if body := s.do(http.MethodGet, "/status/pools", "").body; strings.Contains(body, "hidden") || !strings.Contains(body, "gpu-1") {
		t.Errorf("the JSON has %s", body)
	}
	if data := s.open().next("pools", nil); strings.Contains(data, "hidden") || strings.Contains(data, "other") {
		t.Errorf("the stream has %s", data)
	}
	if r := s.do(http.MethodGet, "/status/history?pool=other&endpoint=hidden", ""); r.status != http.StatusNotFound {
		t.Errorf("its history is answered %d", r.status)
	}
	if r := s.do(http.MethodPost, "/status/drain", `{"pool":"other","endpoint":"hidden"}`, good()...); r.status != http.StatusNotFound {
		t.Errorf("its drain is answered %d", r.status)
	}
}
