package e2e

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/cli"
)

// counts is what the metrics count of requests, refusals, waits and failed scrapes,
// without the zeros.
func (g *gateway) counts() map[string]float64 {
	g.t.Helper()
	families, counts := g.families(), make(map[string]float64)
	for _, of := range []struct{ family, label string }{
		{"caddy_llmlb_requests_total", "outcome"},
		{"caddy_llmlb_refusals_total", "reason"},
		{"caddy_llmlb_scrape_errors_total", "endpoint"},
	} {
		for _, m := range families[of.family].GetMetric() {
			for _, l := range m.GetLabel() {
				if v := m.GetCounter().GetValue(); l.GetName() == of.label && v > 0 {
					counts[strings.TrimPrefix(of.family, "caddy_llmlb_")+" "+l.GetValue()] += v
				}
			}
		}
	}
	if n := counterOf(families, "caddy_llmlb_queue_wait_seconds"); n > 0 {
		counts["queue_wait_seconds"] = n
	}
	return counts
}

// since is how much more than before there is now.
func (g *gateway) since(before map[string]float64) map[string]float64 {
	g.t.Helper()
	now := g.counts()
	for name, v := range before {
		if now[name] -= v; now[name] == 0 {
			delete(now, name)
		}
	}
	return now
}

// One thing happens, and one number moves by one: of those that wait, are refused
// for each reason, and of scrapes that fail.
func TestEachWaitAndRefusalIsCountedOnce(t *testing.T) {
	for _, tc := range []struct {
		name, options string
		happens       func(t *testing.T, g *gateway, a *backend)
		want          map[string]float64
	}{
		{
			"a wait", "queue 1\n",
			func(t *testing.T, g *gateway, a *backend) {
				open := gate(a)
				finish := holdStream(g, chat(true, "", "runs"))
				began := time.Now()
				waiting := g.later(t, chat(true, "", "waits"))
				eventually(t, "it to have waited", func() bool {
					q := g.pools()[0].Queue
					return q.Calls == 1 && q.Classes[0].OldestMillis >= 300
				})
				open()
				if r := arrives(t, "its answer", waiting); r.status != http.StatusOK {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if _, sum := g.histogram("caddy_llmlb_queue_wait_seconds"); sum < 0.3 || sum > time.Since(began).Seconds() {
					t.Errorf("waited %vs by the metric, want from 0.3s to %v", sum, time.Since(began))
				}
				finish()
			},
			map[string]float64{"queue_wait_seconds": 2, "requests_total served": 2}, // one of them no time
		},
		{
			"no room to wait", "queue 1\n",
			func(t *testing.T, g *gateway, a *backend) {
				open := gate(a)
				finish := holdStream(g, chat(true, "", "runs"))
				waiting := g.later(t, chat(true, "", "waits"))
				eventually(t, "it to wait", func() bool { return g.queued() == 1 })
				g.post(chat(true, "", "one too many")).isError(t, http.StatusTooManyRequests)
				open()
				arrives(t, "the other's answer", waiting)
				finish()
			},
			map[string]float64{"queue_wait_seconds": 2, "requests_total served": 2, "requests_total refused": 1, "refusals_total queue_full": 1},
		},
		{
			"a wait in vain", "queue 1 {\nmax_wait 300ms\n}\n",
			func(t *testing.T, g *gateway, a *backend) {
				open := gate(a)
				finish := holdStream(g, chat(true, "", "runs"))
				began := time.Now()
				g.post(chat(true, "", "waits")).isError(t, http.StatusTooManyRequests)
				if took := time.Since(began); took < 300*time.Millisecond {
					t.Errorf("answered after %v, before its time was over", took)
				}
				open()
				finish()
			},
			map[string]float64{"queue_wait_seconds": 1, "requests_total served": 1, "requests_total refused": 1, "refusals_total queue_timeout": 1},
		},
		{
			"nobody there", "queue 1 {\nmax_wait 300ms\n}\n",
			func(t *testing.T, g *gateway, a *backend) {
				site := fmt.Sprintf("llm_proxy %s {\n%squeue 1 {\nmax_wait 300ms\n}\nendpoint %s {\nname a\ndrain\n}\n}\n", a.addr(), fast, a.addr())
				if err := g.load(site); err != nil {
					t.Fatal(err)
				}
				if r, err := g.ask(http.DefaultClient, chat(true, "", "hi")); err != nil || r.status != http.StatusServiceUnavailable {
					t.Errorf("status %d, %v: %s", r.status, err, r.body)
				}
			},
			map[string]float64{"requests_total refused": 1, "refusals_total no_endpoint": 1},
		},
		{
			"a failed scrape", "",
			func(_ *testing.T, _ *gateway, a *backend) {
				var failed atomic.Bool
				a.shows(func(w http.ResponseWriter, _ *http.Request) {
					if failed.CompareAndSwap(false, true) {
						w.WriteHeader(http.StatusInternalServerError)
						return
					}
					raw("text/plain", "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n")(w, nil)
				})
				a.seen()
				a.seen()
			},
			map[string]float64{"scrape_errors_total a": 1},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newBackend(t)
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%s%sendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, patient, tc.options, a.addr()))
			a.seen()
			before := g.counts()
			tc.happens(t, g, a)
			g.idle(t)
			eventually(t, "all to be counted", func() bool { return len(g.since(before)) >= len(tc.want) || t.Failed() })
			if got := g.since(before); !maps.Equal(got, tc.want) {
				t.Errorf("counted %v, want %v", got, tc.want)
			}
		})
	}
}

// Whoever is turned away leaves a line in the access log that says why, and is
// counted, however early that was.
func TestEveryRefusalLeavesATrace(t *testing.T) {
	a := lister(t, raw("application/json", `{"object":"list","data":[{"id":"m","object":"model"}]}`))
	log := newJournal(t)
	g := start(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%s%smax_body 4KiB\nqueue 0\nendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, patient, a.addr()))
	eventually(t, "the server's models to be known", func() bool { return len(g.endpoint("a").Models) == 1 })
	a.seen() // its engine is known by its metrics
	open := gate(a)
	defer open()
	finish := holdStream(g, chat(true, "", "runs"))
	for i, tc := range []struct {
		method, path, body string
		status             int
		code               string
	}{
		{http.MethodPost, chatPath, chat(true, "", prose("long", 5000)), 413, "body_too_large"},
		{http.MethodPost, chatPath, `{"model":"m","model":"m","messages":[]}`, 400, "body_not_accepted"},
		{http.MethodPost, chatPath, `{"model":"nobody's","messages":[]}`, 404, "model_not_found"},
		{http.MethodPost, chatPath, chat(true, "", "one too many"), 429, "at_capacity"},
		{http.MethodGet, "/metrics", "", 404, "path_not_served"},
		{http.MethodDelete, chatPath, "", 405, "method_not_allowed"},
	} {
		t.Run(tc.code, func(t *testing.T) {
			before := g.counts()
			req, err := http.NewRequestWithContext(t.Context(), tc.method, g.url+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			read(t, res).isError(t, tc.status)
			entry := log.entries(t, i+1)[i]
			if entry["status"] != float64(tc.status) || entry["llm_error"] != tc.code || entry["llm_outcome"] != "refused" {
				t.Errorf("logged with status %v, llm_error %v, llm_outcome %v", entry["status"], entry["llm_error"], entry["llm_outcome"])
			}
			if got, want := g.since(before), map[string]float64{"requests_total refused": 1, "refusals_total " + tc.code: 1}; !maps.Equal(got, want) {
				t.Errorf("counted %v, want %v", got, want)
			}
		})
	}
	open()
	finish()
	if entry := log.entries(t, 7)[6]; entry["status"] != 200.0 || entry["llm_outcome"] != "served" {
		t.Errorf("the one that was served is logged with %v, %v", entry["status"], entry["llm_outcome"])
	}
}

// The log tells the class of a request, whose it is, and how long it has waited. Only
// tenants that the configuration names are called by their names: others may be keys.
// The pool's table tells what waits.
func TestTheQueueIsShown(t *testing.T) {
	a, log := newBackend(t), newJournal(t)
	g := start(t, log.directive()+fmt.Sprintf(`llm_proxy %s {
	%s%s
	tenant {header.X-Key}
	tenant_limit weight 2 acme
	class edits
	class summaries {
		expression {header.X-Batch} == "yes"
	}
	endpoint %s {
		name a
		max_concurrent 1
	}
}
`, a.addr(), fast, patient, a.addr()))
	ask := func(key, batch string) <-chan reply {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, strings.NewReader(chat(true, "", "hi")))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Key", key)
		req.Header.Set("X-Batch", batch)
		done := make(chan reply, 1)
		go func() {
			res, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				done <- reply{}
				return
			}
			done <- read(t, res)
		}()
		return done
	}
	served := func(done <-chan reply) {
		t.Helper()
		if r := arrives(t, "an answer", done); r.status != http.StatusOK || r.body != streamed() {
			t.Errorf("status %d: %s", r.status, r.body)
		}
	}
	open := gate(a)
	defer open()
	first := ask("acme", "no")
	a.await("the first request", func() bool { return a.open == 1 })
	second := ask("sk-secret-1", "yes")
	third := ask("sk-secret-1", "no")
	eventually(t, "two to have waited", func() bool {
		q := g.pools()[0].Queue
		return q.Calls == 2 && q.Classes[0].OldestMillis >= 100 && q.Classes[1].OldestMillis >= 100
	})
	var table strings.Builder
	if err := cli.FormatTable(&table, g.pools()); err != nil {
		t.Fatal(err)
	}
	if line := regexp.MustCompile(`(?m)^queue: 1 edits \(oldest [0-9.]+ ?m?s\), 1 summaries \(oldest [0-9.]+ ?m?s\); [1-9][0-9]* tokens; saturation [0-9.]+$`); !line.MatchString(table.String()) {
		t.Errorf("the table says nothing of the two that wait:\n%s", table.String())
	}
	families := g.families()
	for _, class := range []string{"edits", "summaries"} {
		if n := counterOf(families, "caddy_llmlb_queue_requests", "class", class); n != 1 {
			t.Errorf("%v requests of class %s wait by the metrics, want 1", n, class)
		}
		if n := counterOf(families, "caddy_llmlb_queue_tokens", "class", class); n <= 0 {
			t.Errorf("%v tokens of class %s wait by the metrics", n, class)
		}
	}
	if n := counterOf(families, "caddy_llmlb_tokens_in_flight", "phase", "output"); n <= 0 {
		t.Errorf("%v tokens are to be generated by the metrics, want those of the stream", n)
	}
	open()
	for _, done := range []<-chan reply{first, second, third} {
		served(done)
	}
	served(ask("", "no"))

	hashed, seen := regexp.MustCompile(`^t-[0-9a-f]{8}$`), map[any]bool{}
	for _, entry := range log.entries(t, 4) {
		headers := entry["request"].(map[string]any)["headers"].(map[string]any)
		key, batch := headers["X-Key"].([]any)[0], headers["X-Batch"].([]any)[0]
		if want := map[any]string{"yes": "summaries", "no": "edits"}[batch]; entry["llm_class"] != want {
			t.Errorf("the class of %v/%v is logged as %v, want %s", key, batch, entry["llm_class"], want)
		}
		wait, waited := entry["llm_queue_wait_ms"].(float64)
		switch tenant, _ := entry["llm_tenant"].(string); key {
		case "acme":
			if tenant != "acme" || waited {
				t.Errorf("the tenant with a name is logged as %q, with a wait of %v", tenant, wait)
			}
		case "":
			if tenant != "" || waited {
				t.Errorf("nobody is logged as %q, with a wait of %v", tenant, wait)
			}
		default:
			if !hashed.MatchString(tenant) || !waited || wait < 100 {
				t.Errorf("the tenant without a name is logged as %q, with a wait of %v", tenant, wait)
			}
			seen[tenant] = true
		}
	}
	if len(seen) != 1 {
		t.Errorf("one tenant is logged as %v", seen)
	}
	if text := read(t, g.fromAdmin("/metrics")).body + read(t, g.fromAdmin("/llmlb/pools")).body; strings.Contains(text, "sk-secret") {
		t.Error("a key is in the metrics or the admin API")
	}
}

// Two thousand requests of all kinds over all protocols end in every way that there
// is. Afterwards every gauge is back at 0, and each request is counted once.
func TestGaugesReturnToZero(t *testing.T) {
	const requests, clients = 2000, 16
	a, b, log := newBackend(t), newBackend(t), newJournal(t)
	for _, s := range []*backend{a, b} {
		s.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			switch q := string(body); {
			case strings.Contains(q, "fails everywhere"), s == a && strings.Contains(q, "fails once"):
				w.WriteHeader(http.StatusInternalServerError)
			case strings.Contains(q, "is no request"):
				w.WriteHeader(http.StatusBadRequest)
			case strings.Contains(q, "is cut"):
				plays(eventStream, events(answerEvents[:3]...), breaks)(w, r, body)
			case strings.Contains(q, "stays"):
				plays(eventStream, events(answerEvents[:3]...), falls)(w, r, body)
			default:
				time.Sleep(2 * time.Millisecond)
				answer(w, r, body)
			}
		})
	}
	g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s %s {\n%s%squeue 12 {\nmax_wait 10ms\n}\ncircuit off\nendpoint %s {\nname a\nmax_concurrent 4\n}\nendpoint %s {\nname b\nmax_concurrent 4\n}\n}\n",
		a.addr(), b.addr(), fast, patient, a.addr(), b.addr()))
	over := make(map[string]*http.Client)
	for _, protocol := range protocols {
		over[protocol] = g.over(t, protocol)
	}
	var all sync.WaitGroup
	for c := range clients {
		all.Go(func() {
			for i := c; i < requests; i += clients {
				says, leaves := "is served", time.Duration(0)
				switch i % 10 {
				case 0, 1:
					says, leaves = "stays", 30*time.Millisecond
				case 2:
					says = "fails once"
				case 3:
					says = "fails everywhere"
				case 4:
					says = "is no request"
				case 5:
					says = "is cut"
				}
				body := chat(i%2 == 0 || leaves > 0, "", fmt.Sprintf("request %d %s", i, says))
				if i%100 == 99 {
					body = `{"model":"m","model":"m"}`
				}
				g.once(over[protocols[i%3]], body, leaves)
			}
		})
	}
	all.Wait()
	g.idle(t)
	// Who leaves as it comes is not always seen.
	const least = requests * 8 / 10
	seen, since := 0, time.Now()
	eventually(t, "the last requests to be over", func() bool {
		if n := len(log.entries(t, least)); n != seen {
			seen, since = n, time.Now()
		}
		return time.Since(since) > time.Second && int(g.counter("caddy_llmlb_requests_total")) == seen
	})
	families := g.families()
	t.Log(g.counts())
	if n := int(counterOf(families, "caddy_llmlb_requests_total")); n != seen || n > requests {
		t.Errorf("%d requests are counted, the log has %d of %d", n, seen, requests)
	}
	for _, outcome := range []string{"served", "refused", "client_gone", "truncated", "engine_error"} {
		if counterOf(families, "caddy_llmlb_requests_total", "outcome", outcome) == 0 {
			t.Errorf("no request ended as %s: the traffic was not what it was meant to be", outcome)
		}
	}
	if counterOf(families, "caddy_llmlb_retries_total") == 0 || counterOf(families, "caddy_llmlb_refusals_total", "reason", "queue_timeout")+counterOf(families, "caddy_llmlb_refusals_total", "reason", "queue_full") == 0 {
		t.Error("nothing was tried again, or nothing waited in vain")
	}
	for _, gauge := range []string{"queue_requests", "queue_tokens", "body_bytes", "calls_in_flight", "tokens_in_flight"} {
		if v := counterOf(families, "caddy_llmlb_"+gauge); v != 0 || families["caddy_llmlb_"+gauge] == nil {
			t.Errorf("%s is %v in the end, want 0", gauge, v)
		}
	}
}

// once sends a request and hears its answer out, or leaves after a while if that is
// not 0.
func (g *gateway) once(client *http.Client, body string, leaves time.Duration) {
	ctx, leave := context.WithCancel(g.t.Context())
	defer leave()
	if leaves > 0 {
		timer := time.AfterFunc(leaves, leave)
		defer timer.Stop()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+chatPath, strings.NewReader(body))
	if err != nil {
		g.t.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	if res, err := client.Do(req); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
	}
}
