package selection

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const fastScrapes = "engine vllm\nscrape_interval 20ms\nstale_after 10s"

// The policy alone, in somebody's existing reverse_proxy, goes by the load that
// the servers tell.
func TestThePolicyAloneGoesByScrapedLoad(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	a.tells(40, 8, 0.5)
	b.tells(2, 0, 0.5)
	url := run(t, addressesOf(a, b), fastScrapes, "")
	scraped(t, 2)
	for i := range 20 {
		if status, by := post(t, url, strings.NewReader(chat(fmt.Sprint("distinct ", i), 400))); status != http.StatusOK || by != "b" {
			t.Fatalf("request %d: status %d by %q, want the idle b", i, status, by)
		}
	}

	t.Run("and by memory", func(t *testing.T) {
		a.tells(0, 0, 0.10)
		b.tells(0, 0, 0.97)
		scraped(t, 2)
		for i := range 10 {
			if _, by := post(t, url, strings.NewReader(chat(fmt.Sprint("another ", i), 400))); by != "a" {
				t.Fatalf("request %d went to %q, want a, which has memory", i, by)
			}
		}
	})
}

// scraped waits until every endpoint of the pool has been read a few times more.
func scraped(t *testing.T, times uint64) {
	t.Helper()
	name, _, _ := strings.Cut(t.Name(), "/")
	endpoints := poolNamed(t, fmt.Sprintf("test-%x", hashText(name))).Endpoints()
	var from []uint64
	for _, e := range endpoints {
		tried, _ := e.Scrapes()
		from = append(from, tried)
	}
	eventually(t, "metrics read", func() bool {
		for i, e := range endpoints {
			if tried, _ := e.Scrapes(); tried < from[i]+times {
				return false
			}
		}
		return true
	})
}

// The second request with a preamble goes where the first went, until that
// server has a queue; then the next does not.
func TestThePolicyAloneFollowsPrefixesAndSpills(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	a.tells(0, 0, 0.1)
	b.tells(0, 0, 0.1)
	url := run(t, addressesOf(a, b), fastScrapes+"\nstrategy prefix_spill", "")
	scraped(t, 2)
	preamble := strings.Repeat("All work and no play makes a dull prompt. ", 100)
	ask := func(i int) string {
		_, by := post(t, url, strings.NewReader(chat(preamble+fmt.Sprint("question ", i), 0)))
		eventually(t, "the lease ended", func() bool { return openCalls(t) == 0 })
		return by
	}
	servers := map[string]*server{"a": a, "b": b}
	home := ask(0)
	for i := range 10 {
		if by := ask(i + 1); by != home {
			t.Fatalf("question %d went to %q, want the home %q", i+1, by, home)
		}
	}
	servers[home].tells(20, 30, 0.1)
	scraped(t, 3)
	if by := ask(20); by == home {
		t.Errorf("the home has 30 requests waiting, and got one more")
	}
}

// Upstreams that come from somewhere else at every request are balanced and
// remembered by their address.
func TestDynamicUpstreams(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	hold := make(chan struct{})
	a.hold, b.hold = hold, hold
	url := run(t, nil, "engine none", fmt.Sprintf("dynamic test_list %s %s", a.address(), b.address()))
	done := make(chan string, 20)
	for i := range 20 {
		go func() {
			_, by := post(t, url, strings.NewReader(chat(fmt.Sprint("distinct ", i), 2000)))
			done <- by
		}()
	}
	eventually(t, "all arrived", func() bool { return a.count()+b.count() == 20 })
	close(hold)
	for range 20 {
		<-done
	}
	if n := a.count(); n < 7 || n > 13 {
		t.Errorf("split %d : %d", n, b.count())
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
	if n := len(pool(t).Endpoints()); n != 2 {
		t.Errorf("%d endpoints, want 2 however many requests came", n)
	}
}

// Behind another policy the llm policy is asked with no response writer, and
// finds its proxy all the same.
func TestAsTheFallbackOfAnotherPolicy(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	listen := refused(t)
	config := site(t, listen, addressesOf(a, b), "engine none", "")
	config = strings.Replace(config, "lb_policy llm {", "lb_policy header X-Session {\n fallback llm {", 1)
	config = strings.Replace(config, "index_bytes 1MiB", "index_bytes 1MiB\n}", 1)
	config = strings.Replace(config, "engine none\n", "", 1)
	load(t, config)
	stopAfter(t)
	for i := range 10 {
		if status, by := post(t, "http://"+listen, strings.NewReader(chat(fmt.Sprint(i), 0))); status != http.StatusOK || by == "" {
			t.Fatalf("status %d by %q", status, by)
		}
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}

// A reload with a request open keeps what the pool knows, and the request.
func TestAReloadKeepsTheIndexAndOpenRequests(t *testing.T) {
	a, b := newServer(t, "a"), newServer(t, "b")
	listen := refused(t)
	load(t, site(t, listen, addressesOf(a, b), "engine none", ""))
	stopAfter(t)
	url := "http://" + listen
	preamble := strings.Repeat("All work and no play makes a dull prompt. ", 100)
	ask := func(question string) string {
		// A reload closes the old socket with whatever connections wait in it;
		// those clients see a reset and try again.
		var by string
		eventually(t, "an answer", func() bool {
			r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat(preamble+question, 0)))
			if err != nil {
				return false
			}
			by = r.Header.Get("X-Server")
			return r.Body.Close() == nil
		})
		eventually(t, "the lease ended", func() bool { return openCalls(t) == 0 })
		return by
	}
	home := ask("first")

	servers := map[string]*server{"a": a, "b": b}
	servers[home].hold = make(chan struct{})
	done := make(chan string, 1)
	go func() {
		_, by := post(t, url, strings.NewReader(chat(preamble+"slow", 0)))
		done <- by
	}()
	eventually(t, "the request arrived", func() bool { return servers[home].count() == 2 })
	load(t, site(t, listen, addressesOf(a, b), "engine none\naffinity 0.7", ""))
	if n := openCalls(t); n != 1 {
		t.Errorf("%d calls open after the reload, want 1", n)
	}
	close(servers[home].hold)
	if by := <-done; by != home {
		t.Errorf("the open request ended at %q", by)
	}
	servers[home].mu.Lock()
	servers[home].hold = nil
	servers[home].mu.Unlock()
	eventually(t, "the lease ended", func() bool { return openCalls(t) == 0 })
	for i := range 5 {
		if by := ask(fmt.Sprint(i)); by != home {
			t.Fatalf("after the reload the prefix went to %q, want %q", by, home)
		}
	}
	load(t, strings.Replace(site(t, listen, addressesOf(a, b), "engine none", ""), "index_bytes 1MiB", "index_bytes 2MiB", 1))
	if by := ask("resized"); by != home {
		t.Errorf("after a change of index_bytes the prefix went to %q, want %q", by, home)
	}
	if got := indexOf(pool(t)).bytes.Load(); got != 2<<20 {
		t.Errorf("index budget %d, want 2 MiB", got)
	}
}

// The Call that Select puts into the request's context in place is the one the
// transport finds: it names the endpoint, why, and which attempt it was.
func TestTheTransportSeesTheCallOfThePolicyAlone(t *testing.T) {
	a := newServer(t, "a")
	url := run(t, []string{refused(t), a.address()}, "engine none\nendpoint "+a.address()+" {\nname gpu-a\n}", "transport llm\nlb_retries 1")
	attempts := map[string]bool{}
	for i := range 12 {
		r, err := client.Post(url+"/v1/chat/completions", "application/json", strings.NewReader(chat(fmt.Sprint("distinct ", i), 400)))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if name := r.Header.Get("X-LLM-Endpoint"); r.StatusCode != http.StatusOK || name != "gpu-a" {
			t.Fatalf("status %d from %q", r.StatusCode, name)
		}
		if d := r.Header.Get("X-LLM-Decision"); d != "cold" && d != "only" {
			t.Errorf("decision %q", d)
		}
		attempts[r.Header.Get("X-LLM-Attempts")] = true
	}
	if !attempts["1"] || !attempts["2"] {
		t.Errorf("attempts %v, want requests with one and with two", attempts)
	}
	eventually(t, "all leases ended", func() bool { return openCalls(t) == 0 })
}
