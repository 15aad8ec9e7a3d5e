package health

import (
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// run starts a configuration in a bubble and ends it afterwards.
func run(t *testing.T, s *llmlb.Settings) *llmlb.Handle {
	t.Helper()
	c := newConfig(t, nil)
	h := c.watch(t, s)
	c.start(t)
	t.Cleanup(func() { c.end(t) })
	return h
}

// The numbers of a server are shown and used however it names its KV gauge;
// where it exports both names the new one counts.
func TestKVUsageUnderBothNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const base = "vllm:num_requests_running{model_name=\"m\"} 0\nvllm:num_requests_waiting{model_name=\"m\"} 0\n"
		net := newServers()
		net.set("a:1", serves(base+"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.95\n"))
		net.set("b:1", serves(base+"vllm:kv_cache_usage_perc{model_name=\"m\"} 0.10\n"))
		h := run(t, settings(t, net, "a:1", "b:1"))
		time.Sleep(3 * time.Second)
		for address, want := range map[string]float64{"a:1": 0.95, "b:1": 0.10} {
			if got := row(t, h, address).KVUsage; got == nil || *got != want {
				t.Errorf("kv usage of %s is %v, want %v", address, got, want)
			}
		}
		net.set("a:1", serves(base+"vllm:gpu_cache_usage_perc{model_name=\"m\"} 0.95\nvllm:kv_cache_usage_perc{model_name=\"m\"} 0.05\n"))
		time.Sleep(2 * time.Second)
		if got := row(t, h, "a:1").KVUsage; got == nil || *got != 0.05 {
			t.Errorf("with both names on the page kv usage is %v, want the new one's 0.05", got)
		}
	})
}

// Servers that accept and never answer do not hold up the numbers of others.
func TestHangingServersDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		healthy, hanging := []string{"a:1", "b:1"}, []string{"c:1", "d:1", "e:1", "f:1"}
		for _, a := range healthy {
			net.set(a, serves(load(1, 0, 0.1)))
		}
		for _, a := range hanging {
			net.set(a, hangs)
		}
		s := settings(t, net, append(healthy, hanging...)...)
		s.Scrape.Interval = 100 * time.Millisecond
		run(t, s)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		from, before := time.Now(), runtime.NumGoroutine()
		time.Sleep(7 * time.Second)
		synctest.Wait()
		for _, a := range healthy {
			if n := net.count(a, from); n < 69 || n > 71 {
				t.Errorf("%s was scraped %d times in 7 s, want 70", a, n)
			}
		}
		if after := runtime.NumGoroutine(); after > before+5 {
			t.Errorf("goroutines rose from %d to %d while servers hang", before, after)
		}
	})
}

// One deadline covers the whole scrape, however busily bytes trickle in, and
// a slow server never sees two scrapes at once.
func TestDeadlineCoversTheWholeScrape(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", drips(load(1, 2, 0.3), 50*time.Millisecond))
		s := settings(t, net, "a:1")
		s.Scrape.Interval = 300 * time.Millisecond
		h := run(t, s)
		from := time.Now()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := net.mostOpen("a:1"); n != 1 {
			t.Errorf("%d scrapes of one server were open at once", n)
		}
		if n := net.count("a:1", from); n < 10 {
			t.Errorf("only %d scrapes began in 10 s: the deadline is not the interval", n)
		}
		r := row(t, h, "a:1")
		if r.Reason != "timeout after 300ms" || r.Waiting != nil || !r.Blind || r.State != "up" {
			t.Errorf("row is %+v; want up, blind, without numbers, reason 'timeout after 300ms'", r)
		}
	})
}

// Missing is not zero: an empty page, or one without the engine's families,
// leaves the endpoint without numbers and says why.
func TestPageWithoutFamilies(t *testing.T) {
	for name, page := range map[string]string{
		"empty":      "",
		"other":      "process_cpu_seconds_total 1\n",
		"start only": "process_start_time_seconds 1.7e9\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newServers()
				net.set("a:1", serves(page))
				core, logs := recorded()
				c := newConfig(t, core)
				h := c.watch(t, settings(t, net, "a:1"))
				c.start(t)
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				r := row(t, h, "a:1")
				c.end(t)
				if r.Running != nil || r.Waiting != nil || r.KVUsage != nil || !r.Blind || r.State != "up" || !strings.HasPrefix(r.Reason, "family not found") {
					t.Errorf("row is %+v; want up, blind, no numbers, 'family not found'", r)
				}
				if n := count(lines(logs), "family not found"); n != 1 {
					t.Errorf("the reason was logged %d times in 10 minutes, want once:\n%q", n, lines(logs))
				}
			})
		})
	}
}

// The last line counts even without a newline at its end.
func TestPageWithoutFinalNewline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves("vllm:num_requests_running 2\nvllm:num_requests_waiting 6"))
		h := run(t, settings(t, net, "a:1"))
		time.Sleep(2 * time.Second)
		r := row(t, h, "a:1")
		if r.Waiting == nil || *r.Waiting != 6 || r.Running == nil || *r.Running != 2 {
			t.Errorf("row is %+v, want running 2 and waiting 6", r)
		}
	})
}

// An HTML page in place of the metrics is a failed scrape, not a failed
// server, and no line of the log carries it.
func TestHTMLInPlaceOfMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const html = "<html><h1>Bad gateway</h1></html>"
		net := newServers()
		net.set("a:1", servesAs("text/html; charset=utf-8", html))
		net.set("b:1", servesAs("text/plain", html))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1", "b:1"))
		c.start(t)
		time.Sleep(20 * time.Second)
		a, b := row(t, h, "a:1"), row(t, h, "b:1")
		c.end(t)
		if a.Reason != "not a metrics page (text/html)" || a.State != "up" || a.Waiting != nil || !a.Blind {
			t.Errorf("row is %+v", a)
		}
		if !strings.HasPrefix(b.Reason, "family not found") || b.State != "up" {
			t.Errorf("row of the one that calls it text is %+v", b)
		}
		for _, l := range lines(logs) {
			if len(l) > 250 || count([]string{l}, "<") > 0 {
				t.Errorf("log line carries the page: %s", l)
			}
		}
	})
}

// A server that is not there at start is down after three tries, and joins as
// soon as it comes up.
func TestServerThatComesUpLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(0, 0, 0)))
		net.set("b:1", fails(reverseproxy.NewDialError(syscall.ECONNREFUSED)))
		net.set("c:1", fails(reverseproxy.NewDialError(&lookupError{})))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1", "b:1", "c:1"))
		c.start(t)
		time.Sleep(5 * time.Second)
		if r := row(t, h, "a:1"); r.State != "up" || r.Running == nil {
			t.Errorf("row of the healthy one is %+v", r)
		}
		if r := row(t, h, "b:1"); r.State != "down" || r.Reason != "connection refused" {
			t.Errorf("row of the refused one is %+v", r)
		}
		if r := row(t, h, "c:1"); r.State != "down" || r.Reason != "no such host" {
			t.Errorf("row of the unresolvable one is %+v", r)
		}
		time.Sleep(10 * time.Minute)
		net.set("b:1", serves(load(0, 0, 0)))
		time.Sleep(2 * time.Second)
		if r := row(t, h, "b:1"); r.State != "up" || r.Running == nil || r.Reason != "" {
			t.Errorf("row of the one that came up is %+v", r)
		}
		c.end(t)
		all := lines(logs)
		for part, want := range map[string]int{
			`"reason":"connection refused"`: 2, // the scrape's and the state's
			`"to":"up"`:                     1,
			`"msg":"scrape recovered"`:      1,
		} {
			if n := count(all, part); n != want {
				t.Errorf("%d log lines with %s, want %d:\n%q", n, part, want, all)
			}
		}
	})
}

type lookupError struct{}

func (*lookupError) Error() string { return "dial tcp: lookup c on 127.0.0.1:53: no such host" }

// Endpoints of dynamic upstreams are scraped from first sight and forgotten
// when nobody has named them for long.
func TestDynamicEndpoints(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(3, 0, 0.1)))
		s := settings(t, net)
		s.Dynamic = true
		h := run(t, s)
		time.Sleep(time.Minute)
		p := h.Pool()
		p.Lock()
		p.Sight("a:1", time.Now())
		p.Unlock()
		time.Sleep(2 * time.Second)
		if r := row(t, h, "a:1"); r.Running == nil || *r.Running != 3 {
			t.Errorf("row is %+v, want running 3", r)
		}
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if n := len(p.Endpoints()); n != 0 {
			t.Errorf("%d endpoints are remembered after 15 idle minutes", n)
		}
		from := time.Now()
		time.Sleep(time.Minute)
		if n := net.count("a:1", from); n != 0 {
			t.Errorf("%d scrapes of a forgotten endpoint", n)
		}
	})
}

// Turns of different endpoints are spread over the interval, and each keeps its
// own place in it.
func TestTicksAreSpread(t *testing.T) {
	epoch := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const interval = time.Second
	var quarters [4]int
	for i := range 400 {
		hash := uint64(i) * 0x9e3779b97f4a7c15
		first := nextTick(epoch, hash, interval, epoch)
		if d := first.Sub(epoch); d <= 0 || d > interval {
			t.Fatalf("first tick after %v, want within the interval", d)
		}
		quarters[min(3, int(first.Sub(epoch)/(interval/4)))]++
		if d := nextTick(epoch, hash, interval, first).Sub(first); d != interval {
			t.Fatalf("second tick after %v", d)
		}
		late := first.Add(2500 * time.Millisecond)
		if d := nextTick(epoch, hash, interval, late).Sub(first); d != 3*interval {
			t.Fatalf("after a scrape of 2.5 s the next tick is %v after the first", d)
		}
	}
	for i, n := range quarters {
		if n < 60 {
			t.Errorf("quarter %d of the interval has %d of 400 endpoints", i, n)
		}
	}
}

// With a long interval the first numbers must not be that long in coming.
func TestTheFirstScrapeComesSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		s := settings(t, net, "a:1", "b:1")
		for _, m := range s.Members {
			net.set(m.Address, serves(load(1, 0, 0.1)))
		}
		s.Scrape.Interval, s.Scrape.StaleAfter = 30*time.Minute, 2*time.Hour
		h := run(t, s)
		time.Sleep(2 * time.Second)
		for _, address := range []string{"a:1", "b:1"} {
			if row(t, h, address).Running == nil {
				t.Errorf("there are no numbers of %s after two seconds", address)
			}
		}
	})
}
