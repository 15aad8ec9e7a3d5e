package health

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// With engine auto the server's own page says what it is.
func TestAutoRecognizesTheEngine(t *testing.T) {
	for page, want := range map[string]string{
		load(1, 2, 0.3): "vllm",
		"sglang:num_running_reqs{model_name=\"m\"} 1\nsglang:num_queue_reqs{model_name=\"m\"} 2\n":                           "sglang",
		"llamacpp:requests_processing 1\nllamacpp:requests_deferred 2\n":                                                     "llamacpp",
		"tgi_batch_current_size 1\ntgi_queue_size 2\n":                                                                       "tgi",
		"lmdeploy:num_requests_running 1\nlmdeploy:num_requests_waiting 2\n":                                                 "lmdeploy",
		"nv_trt_llm_request_metrics{request_type=\"scheduled\"} 1\nnv_trt_llm_request_metrics{request_type=\"waiting\"} 2\n": "triton",
	} {
		t.Run(want, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				net := newServers()
				net.set("a:1", serves(page))
				core, logs := recorded()
				c := newConfig(t, core)
				h := c.watch(t, settings(t, net, "a:1"))
				c.start(t)
				time.Sleep(time.Minute)
				r := row(t, h, "a:1")
				c.end(t)
				if r.Engine != want || r.Running == nil || *r.Running != 1 || *r.Waiting != 2 {
					t.Errorf("row is %+v, want %s with 1 running and 2 waiting", r, want)
				}
				if n := count(lines(logs), `"engine recognized"`); n != 1 || len(lines(logs)) != 1 {
					t.Errorf("log after a minute: %q, want one line", lines(logs))
				}
			})
		})
	}
}

// A server that makes clear it has no metrics is asked less and less, and is
// found within half a minute when it gets some; one that is still loading is
// asked every interval.
func TestAutoBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", servesStatus(404))
		net.set("b:1", servesStatus(503))
		h := run(t, settings(t, net, "a:1", "b:1"))
		time.Sleep(2 * time.Minute)
		from := time.Now()
		time.Sleep(5 * time.Minute)
		if n := net.count("a:1", from); n < 40 || n > 46 {
			t.Errorf("%d scrapes in 5 minutes of a server without metrics, want five per 34 s", n)
		}
		if n := net.count("b:1", from); n < 299 {
			t.Errorf("%d scrapes in 5 minutes of a server that is loading, want one per second", n)
		}
		if r := row(t, h, "a:1"); r.Reason != "404" || r.State != "up" {
			t.Errorf("row is %+v, want up and 404", r)
		}
		net.set("a:1", serves(load(1, 0, 0)))
		time.Sleep(31 * time.Second)
		if r := row(t, h, "a:1"); r.Engine != "vllm" {
			t.Errorf("row is %+v, want vllm found", r)
		}
		from = time.Now()
		time.Sleep(10 * time.Second)
		if n := net.count("a:1", from); n < 9 {
			t.Errorf("%d scrapes in 10 s once found", n)
		}
	})
}

// When another engine comes up at the address it is recognized, after three
// failures or at once after a restart.
func TestAutoLooksAgain(t *testing.T) {
	s := &llmlb.Scrape{Engine: auto, Interval: time.Second}
	var f finder
	f.next(s)
	f.found(&sglang, false)
	for range lookAgainAfter {
		if list, _ := f.next(s); !slices.Equal(list, []*Dialect{&sglang}) {
			t.Fatalf("tries %d dialects before the third failure", len(list))
		}
		if why, pause := f.failed(s, &page{contact: contact{conclusive: true}}, "404"); pause != 0 || why != "404" {
			t.Fatalf("pauses %v for %q with an engine known", pause, why)
		}
	}
	if list, _ := f.next(s); len(list) < 5 {
		t.Errorf("tries %d dialects after the third failure", len(list))
	}
	f.found(&vLLM, false)
	if list, _ := f.next(s); !slices.Equal(list, []*Dialect{&vLLM}) {
		t.Error("does not keep what it found")
	}
	f.found(&vLLM, true)
	if list, _ := f.next(s); len(list) < 5 {
		t.Error("trusts what it found before a restart")
	}
	s.Engine = "llamacpp"
	if list, what := f.next(s); !slices.Equal(list, []*Dialect{&llamacpp}) || what.path != "/metrics" {
		t.Error("does not follow new settings")
	}
	if why, pause := f.failed(s, &page{contact: contact{conclusive: true}}, "501"); pause != 0 || why != "501" {
		t.Errorf("pauses %v for %q with an engine that was named", pause, why)
	}
}

// A counter that went backwards is a restart: said once, and the cache is
// another one.
func TestRestartIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		net.set("a:1", serves(load(1, 0, 0)+"vllm:prompt_tokens_total 1000\n"))
		core, logs := recorded()
		c := newConfig(t, core)
		h := c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		time.Sleep(5 * time.Second)
		cache := cacheOf(h)
		net.set("a:1", serves(load(0, 0, 0)+"vllm:prompt_tokens_total 10\n"))
		time.Sleep(5 * time.Second)
		if cacheOf(h) == cache {
			t.Error("the cache is taken for the one before the restart")
		}
		c.end(t)
		if n := count(lines(logs), "engine restarted"); n != 1 {
			t.Errorf("the restart was logged %d times: %q", n, lines(logs))
		}
	})
}

func cacheOf(h *llmlb.Handle) uint32 {
	h.Pool().Lock()
	defer h.Pool().Unlock()
	return h.Settings().Members[0].Endpoint.CacheID()
}

// A server that fails every other scrape says so once a minute, not every time.
func TestFlappingDoesNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newServers()
		core, logs := recorded()
		c := newConfig(t, core)
		net.set("a:1", servesStatus(503))
		c.watch(t, settings(t, net, "a:1"))
		c.start(t)
		for i := range 600 {
			if i%2 == 0 {
				net.set("a:1", serves(load(0, 0, 0)))
			} else {
				net.set("a:1", servesStatus(503))
			}
			time.Sleep(time.Second)
		}
		c.end(t)
		if n := count(lines(logs), "scrape failed"); n < 9 || n > 11 {
			t.Errorf("%d lines about failures in 10 minutes, want about 10", n)
		}
		if n := len(lines(logs)); n > 25 {
			t.Errorf("%d log lines in 10 minutes", n)
		}
	})
}
