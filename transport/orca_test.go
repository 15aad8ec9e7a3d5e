package transport

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// load is what of the Signals a header can tell.
type load struct{ waiting, running, kv, capacity float64 }

func loadOf(s *llmlb.Signals) load { return load{s.Waiting, s.Running, s.KVUsage, s.KVCapacity} }

// none is a header that tells nothing.
var none = load{llmlb.Unknown, llmlb.Unknown, llmlb.Unknown, llmlb.Unknown}

// with returns none with the numbers given.
func with(set func(*load)) load {
	l := none
	set(&l)
	return l
}

// Engines write the header in several ways, and some of what comes is wrong. What
// cannot be believed must stay unknown: a zero would draw requests.
func TestLoadHeaderIsRead(t *testing.T) {
	kv := func(v float64) load { return with(func(l *load) { l.kv = v }) }
	waiting := func(v float64) load { return with(func(l *load) { l.waiting = v }) }
	vllm := load{waiting: 1, running: llmlb.Unknown, kv: 0.4, capacity: llmlb.Unknown}
	triton := load{waiting: llmlb.Unknown, running: llmlb.Unknown, kv: 0.25, capacity: 81920}
	many := func(n int) string { return strings.Repeat("x=1,", n-1) + "num_requests_waiting=1" }
	for _, test := range []struct {
		name, value string
		want        load
	}{
		{"vLLM, text", `TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=1`, vllm},
		{"vLLM, JSON", `JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 1.0}}`, vllm},
		{"unmarked text", `named_metrics.kv_cache_usage_perc=0.4,named_metrics.num_requests_waiting=1`, vllm},
		{"unmarked JSON", `{"named_metrics":{"kv_cache_usage_perc":0.4,"num_requests_waiting":1}}`, vllm},
		{"Triton, text", `TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=81920`, triton},
		{"Triton, JSON", `JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":81920}}`, triton},
		{"plain names", `kv_cache_utilization=0.25,max_token_capacity=81920`, triton},
		{"plain names in JSON", `JSON {"kv_cache_utilization":0.25,"max_token_capacity":81920}`, triton},
		{"whole names in JSON", `JSON {"named_metrics.kv_cache_utilization":0.25,"named_metrics.max_token_capacity":81920}`, triton},
		{"lower case", `text num_requests_running=7`, with(func(l *load) { l.running = 7 })},
		{"ORCA's own metrics", `TEXT cpu_utilization=0.9, mem_utilization=0.8, rps_fractional=10, named_metrics.num_requests_waiting=2`, waiting(2)},
		{"ORCA's own metrics in JSON", `JSON {"cpu_utilization":0.9,"utilization":{"a":1},"named_metrics":{"num_requests_waiting":2}}`, waiting(2)},
		{"nothing to do", `TEXT num_requests_waiting=0, kv_cache_usage_perc=0`, load{0, llmlb.Unknown, 0, llmlb.Unknown}},
		{"an exponent", `TEXT kv_cache_usage_perc=1e-1`, kv(0.1)},
		{"a comma too many", `TEXT , num_requests_waiting=2,`, waiting(2)},
		{"one bad, one good", `TEXT kv_cache_usage_perc=nan, num_requests_waiting=2`, waiting(2)},
		{"twice", `TEXT num_requests_waiting=2, num_requests_waiting=0, named_metrics.num_requests_waiting=1`, waiting(2)},
		{"two names for one", `TEXT kv_cache_utilization=0.1, kv_cache_usage_perc=0.9`, kv(0.9)},
		{"two names for one in JSON", `{"kv_cache_usage_perc":0.1,"named_metrics":{"kv_cache_utilization":0.9}}`, kv(0.9)},
		{"capacity twice", `TEXT max_token_capacity=5000, max_token_capacity=9000`, with(func(l *load) { l.capacity = 5000 })},
		{"rounded over 1", `TEXT kv_cache_usage_perc=1.0000001`, kv(1)},
		{"64 metrics", many(64), waiting(1)},

		{"nothing", ``, none},
		{"only a mark", `TEXT`, none},
		{"only a mark and a space", `JSON `, none},
		{"binary", `BIN CgkJAAAAAAAA8D8=`, none},
		{"a sentence", `the server is idle`, none},
		{"no value", `TEXT num_requests_waiting=, kv_cache_usage_perc`, none},
		{"not a number", `TEXT num_requests_waiting=NaN, num_requests_running=-Inf, kv_cache_usage_perc=none`, none},
		{"negative", `TEXT num_requests_waiting=-1, num_requests_running=-0.5, kv_cache_usage_perc=-0.1, max_token_capacity=-7`, none},
		{"infinite", `TEXT num_requests_waiting=Inf, num_requests_running=1e400, max_token_capacity=+Inf`, none},
		{"too much", `TEXT num_requests_waiting=1e8, num_requests_running=1e300, kv_cache_usage_perc=40, max_token_capacity=1e16`, none},
		{"no capacity", `TEXT max_token_capacity=0`, none},
		{"broken JSON", `JSON {"named_metrics": {"num_requests_waiting": 0}`, none},
		{"JSON and more", `JSON {"num_requests_waiting": 0} x`, none},
		{"named metrics that are none", `JSON {"num_requests_waiting": 0, "named_metrics": [1]}`, none},
		{"numbers in quotes", `JSON {"num_requests_waiting": "0", "num_requests_running": null, "kv_cache_usage_perc": [0]}`, none},
		{"a list", `JSON [{"num_requests_waiting": 0}]`, none},
		{"deep", `JSON ` + strings.Repeat(`{"named_metrics":`, 400) + `{"num_requests_waiting":0}` + strings.Repeat(`}`, 400), none},
		{"65 metrics", many(65), none},
		{"too long", `TEXT num_requests_waiting=1` + strings.Repeat(" ", maxLoad), none},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := readLoad(test.value, time.Unix(7, 0))
			if got := loadOf(&s); got != test.want {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
			if s.At.Unix() != 7 || s.GenerationTokens != llmlb.Unknown || s.WaitingTokens != llmlb.Unknown {
				t.Errorf("more is told than a header can: %+v", s)
			}
		})
	}
}

// Whatever a server writes there, only numbers that can be come out, and the same
// each time.
func FuzzORCA(f *testing.F) {
	f.Add(`TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=1`)
	f.Add(`JSON {"named_metrics": {"kv_cache_utilization": 0.4, "max_token_capacity": 81920}}`)
	f.Add(`{"num_requests_running":1e3,"num_requests_running":0,"named_metrics":null}`)
	f.Add(`num_requests_running=0x1p-2,kv_cache_usage_perc=1.0005,num_requests_waiting=1e7`)
	f.Fuzz(func(t *testing.T, value string) {
		s := readLoad(value, time.Unix(7, 0))
		in := func(v, limit float64) bool { return v == llmlb.Unknown || 0 <= v && v <= limit && !math.IsNaN(v) }
		if !in(s.Waiting, llmlb.MaxRequests) || !in(s.Running, llmlb.MaxRequests) || !in(s.KVUsage, 1) || !in(s.KVCapacity, llmlb.MaxTokens) || s.KVCapacity == 0 {
			t.Fatalf("out of range: %+v", loadOf(&s))
		}
		if again := readLoad(value, time.Unix(7, 0)); loadOf(&again) != loadOf(&s) {
			t.Fatalf("%+v, and then %+v", loadOf(&s), loadOf(&again))
		}
		if got := loadOf(&s); len(value) > maxLoad && got != none {
			t.Fatalf("%d bytes were read: %+v", len(value), got)
		}
		if json.Valid([]byte(value)) {
			if marked := readLoad("JSON "+value, time.Unix(7, 0)); strings.HasPrefix(value, "{") && len(value) < maxLoad-5 && loadOf(&marked) != loadOf(&s) {
				t.Fatalf("%+v marked, %+v unmarked", loadOf(&marked), loadOf(&s))
			}
		}
	})
}

// orcaEngine answers whole, with its load in the head: header gives it, asked tells
// in what form the last request wanted it.
func orcaEngine(t *testing.T, header func() []string) (address string, asked func() string) {
	var format string
	address = backend(t, func(w http.ResponseWriter, r *http.Request) {
		format = strings.Join(r.Header["Endpoint-Load-Metrics-Format"], "; ")
		for _, h := range header() {
			w.Header().Add("endpoint-load-metrics", h)
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[],"usage":{"completion_tokens":3}}`)
	})
	return address, func() string { return format }
}

// With orca on, engines are asked when they generate and never otherwise, and
// clients see nothing of it. With orca off, a client cannot ask either.
func TestOnlyTheGatewayAsksForLoad(t *testing.T) {
	address, asked := orcaEngine(t, func() []string { return []string{"TEXT num_requests_waiting=3"} })
	for _, test := range []struct {
		name       string
		on         bool
		generates  bool
		method     string
		want, seen string
	}{
		{"on", true, true, http.MethodPost, "text", ""},
		{"on, a health check", true, false, http.MethodGet, "", ""},
		{"on, a POST that generates nothing", true, false, http.MethodPost, "", ""},
		{"off", false, true, http.MethodPost, "", "TEXT num_requests_waiting=3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, provisioned(t, `{}`), address)
			w.settings.ORCA = test.on
			c := w.call()
			if !test.generates {
				c.InputTokens = 0
			}
			req := w.request(t.Context(), c)
			req.Method = test.method
			req.Header.Set("endpoint-load-metrics-format", "JSON")
			resp, err := w.tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			if got := asked(); got != test.want {
				t.Errorf("the engine was asked for %q, want %q", got, test.want)
			}
			if got := resp.Header.Get("endpoint-load-metrics"); got != test.seen {
				t.Errorf("the client sees %q, want %q", got, test.seen)
			}
			if !strings.Contains(string(body), "usage") || resp.Header.Get(llmlb.HeaderEndpoint) == "" {
				t.Errorf("the answer is spoilt: %q, %v", body, resp.Header)
			}
			if req.Header.Get("endpoint-load-metrics-format") != "JSON" {
				t.Error("the proxy's own request was changed")
			}
			w.calm()
		})
	}
}

// row is the endpoint as the pool table shows it, and how many requests of others
// are counted there.
func (w *world) row() (row llmlb.EndpointStatus, foreign float64) {
	w.t.Helper()
	now := time.Now()
	row = w.pool.Status(now).Endpoints[0]
	w.pool.Lock()
	defer w.pool.Unlock()
	load := w.endpoint.Ledger().Load(now, llmlb.DefaultInterval, llmlb.DefaultStaleAfter, llmlb.PriorSpeed)
	return row, load.Foreign
}

func number(p *float64) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

// Where nothing can be scraped, the header shows what the table shows, and other
// gateways' requests are seen in it.
func TestLoadHeaderIsASample(t *testing.T) {
	header := []string{"TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=5"}
	address, _ := orcaEngine(t, func() []string { return header })
	w := newWorld(t, provisioned(t, `{}`), address)
	w.settings.ORCA = true
	if row, _ := w.row(); !row.Blind || row.Waiting != nil {
		t.Fatalf("before: %+v", row)
	}
	if _, _, err := w.do(w.call()); err != nil {
		t.Fatal(err)
	}
	row, foreign := w.row()
	if row.Blind || number(row.Waiting) != "5" || number(row.KVUsage) != "0.4" || row.Running != nil {
		t.Errorf("waiting %s, kv %s, running %s, blind %v", number(row.Waiting), number(row.KVUsage), number(row.Running), row.Blind)
	}
	if foreign != 4 { // one of the five may have been our own
		t.Errorf("%v requests of others are counted, want 4", foreign)
	}
	if tried, failed := w.endpoint.Scrapes(); tried != 0 || failed != 0 {
		t.Errorf("it counts as %d scrapes, %d failed", tried, failed)
	}
}

// A header that cannot be right changes nothing: the answer passes, and what the
// last scrape said stands, no fresher than it was.
func TestLyingLoadHeaderChangesNothing(t *testing.T) {
	for _, header := range [][]string{
		{"TEXT num_requests_waiting=-5, num_requests_running=NaN, kv_cache_usage_perc=-1"},
		{"TEXT num_requests_waiting=1e9, kv_cache_usage_perc=100"},
		{`JSON {"named_metrics":{"num_requests_waiting":0`},
		{"TEXT num_requests_waiting=0", "TEXT num_requests_waiting=9"},
		{"TEXT num_requests_waiting=0" + strings.Repeat(",x=1", 64)},
		{"TEXT num_requests_waiting=0," + strings.Repeat("x", maxLoad)},
		{""},
	} {
		address, _ := orcaEngine(t, func() []string { return header })
		w := newWorld(t, provisioned(t, `{}`), address)
		w.settings.ORCA = true
		page := llmlb.NoSignals(time.Now())
		page.Waiting, page.Running, page.KVUsage = 8, 20, 0.7
		w.endpoint.ObserveSignals(page)
		_, body, err := w.do(w.call())
		if err != nil || !strings.Contains(body, "usage") {
			t.Errorf("%.60q broke the answer: %v, %q", header, err, body)
		}
		w.pool.Lock()
		got, _ := w.endpoint.Ledger().Signals()
		w.pool.Unlock()
		if loadOf(&got) != (load{8, 20, 0.7, llmlb.Unknown}) || !got.At.Equal(page.At) {
			t.Errorf("%.60q made it %+v, at %v", header, loadOf(&got), got.At.Sub(page.At))
		}
		w.calm()
	}
}

// A server that claims in every answer to be idle hides what others send it, but
// nothing of what we did: by our own account it is as busy as any.
func TestIdleClaimHidesNothingOfOurs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := provisioned(t, `{}`)
		w := newWorld(t, tr, "10.0.0.1:8000")
		w.settings.ORCA = true
		onWire(tr, &wire{serve: func(conn net.Conn, n int) {
			if _, err := read(bufio.NewReader(conn)); err != nil {
				return
			}
			if n <= 10 {
				time.Sleep(time.Minute)
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\nendpoint-load-metrics: TEXT num_requests_waiting=0, num_requests_running=0, kv_cache_usage_perc=0\r\n\r\n{}")
		}})
		for range 10 {
			go func() { _, _, _ = w.do(w.call()) }()
			synctest.Wait()
		}
		for range 20 {
			if _, _, err := w.do(w.call()); err != nil {
				t.Error(err)
			}
		}
		w.pool.Lock()
		got := w.endpoint.Ledger().Load(time.Now(), llmlb.DefaultInterval, llmlb.DefaultStaleAfter, llmlb.PriorSpeed)
		w.pool.Unlock()
		if got.Own != 10 || got.PrefillTokens != 100 || got.Waiting+got.Running != 10 || got.Foreign != 0 {
			t.Errorf("%+v, want our ten calls with a hundred tokens", got)
		}
		time.Sleep(2 * time.Minute)
		w.calm()
	})
}
