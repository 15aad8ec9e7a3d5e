package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Eighty requests come at once to four servers that look alike and may have
// twenty each. Half share a beginning that all four hold. Those that share none
// are still spread evenly: equals do not all go to the first, nor do the others
// crowd them out.
func TestABurstOfEqualsIsSpread(t *testing.T) {
	for _, strategy := range []string{"work", "weighted"} {
		t.Run(strategy, func(t *testing.T) {
			list := []*backend{newBackend(t), newBackend(t), newBackend(t), newBackend(t)}
			site := func(scrapes string) string {
				var s strings.Builder
				fmt.Fprintf(&s, "llm_proxy")
				for _, b := range list {
					fmt.Fprintf(&s, " %s", b.addr())
				}
				fmt.Fprintf(&s, " {\n%sstrategy %s\n", scrapes, strategy)
				for i, b := range list {
					fmt.Fprintf(&s, "endpoint %s {\nname %s\nmax_concurrent 20\n}\n", b.addr(), nameOf(i))
				}
				return s.String() + "}\n"
			}
			g := start(t, site(fast))

			preamble := prose("known everywhere", 8000)
			for i, b := range list {
				onlyFree(b, list...)
				if got := g.post(chat(false, preamble, fmt.Sprint("teacher ", i))).endpoint(); got != nameOf(i) {
					t.Fatalf("the prefix was computed at %s, want %s", got, nameOf(i))
				}
			}
			allFree(list...)
			g.idle(t)

			// From here on the numbers stand still: all are idle.
			if err := g.load(site("scrape_interval 1m\nstale_after 10m\n")); err != nil {
				t.Fatal(err)
			}
			together(80, list...)
			client := &http.Client{Timeout: time.Minute} // should one be missing
			var mu sync.Mutex
			cold, warm := map[string]int{}, map[string]int{}
			var all sync.WaitGroup
			for i := range 80 {
				all.Go(func() {
					body := chat(false, preamble, fmt.Sprint("question ", i))
					if i%2 == 0 {
						body = chat(false, "", prose(fmt.Sprintf("%d is new", i), 3000))
					}
					r, err := g.ask(client, body)
					if err != nil || r.status != http.StatusOK {
						t.Errorf("status %d, %v: %s", r.status, err, r.body)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					if i%2 == 0 {
						cold[r.endpoint()]++
					} else {
						warm[r.endpoint()]++
					}
				})
			}
			all.Wait()
			least, most := 80, 0
			for i := range list {
				n := cold[nameOf(i)]
				least, most = min(least, n), max(most, n)
			}
			// A server that has fewer of the new ones has more of the known ones, whose
			// answers a new one would hold up at their beginning.
			if most-least > 12 {
				t.Errorf("the forty new prompts were split %v, want a difference of 12 at most (the known ones %v)", cold, warm)
			}
			for i := range list {
				if n := cold[nameOf(i)] + warm[nameOf(i)]; n > 22 {
					t.Errorf("of eighty requests %d went to %s (new ones %v, known ones %v)", n, nameOf(i), cold, warm)
				}
			}
		})
	}
}

// Without any option there is no limit: fifty requests are at the servers at
// once. Where somebody has set one, whoever is refused is told the name of the
// option that would have to be another.
func TestNoLimitUnlessSet(t *testing.T) {
	a, b := newBackend(t), newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s %s\n", a.addr(), b.addr()))
	together(50, a, b) // nobody is answered before all fifty are there
	burst(g, 50, distinct)

	limited := func(queue string) {
		if err := g.load(fmt.Sprintf("llm_proxy %s %s {\n%sendpoint %s {\nmax_concurrent 2\n}\nendpoint %s {\nmax_concurrent 2\n}\n}\n",
			a.addr(), b.addr(), queue, a.addr(), b.addr())); err != nil {
			t.Fatal(err)
		}
	}
	limited("")
	openA, openB := gate(a), gate(b)
	var running []func()
	for range 4 {
		running = append(running, holdStream(g, chat(true, "", prose("held", 600))))
	}
	// How long a request waits for a place is an option too, and so is how many do.
	for queue, names := range map[string]string{
		"queue {\nmax_wait 50ms\n}\n": "(max_wait)",
		"queue {\nmax_wait 0\n}\n":    "(max_concurrent ",
		"queue 0\n":                   "(max_concurrent ",
		"queue off\n":                 "(max_concurrent ",
	} {
		limited(queue)
		r := g.post(distinct(1))
		if r.status != http.StatusTooManyRequests || !strings.Contains(r.body, names) || r.header.Get("Retry-After") == "" {
			t.Errorf("with %q: status %d: %s; want 429 with the option's name, %s", queue, r.status, r.body, names)
		}
	}
	openA()
	openB()
	for _, finish := range running {
		finish()
	}
	g.idle(t)
	if r := g.post(distinct(2)); r.status != http.StatusOK {
		t.Errorf("status %d when there is room again: %s", r.status, r.body)
	}
}

// holdStream begins a stream, for servers that hold theirs (see gate), and
// returns what waits for its end.
func holdStream(g *gateway, body string) (finish func()) {
	g.t.Helper()
	var res *http.Response
	eventually(g.t, "a connection", func() (ok bool) { // see ask
		var err error
		res, err = http.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
		return err == nil
	})
	if res.StatusCode != http.StatusOK {
		g.t.Fatalf("status %d, %v: %s", res.StatusCode, res.Header, read(g.t, res).body)
	}
	return func() {
		g.t.Helper()
		if got := read(g.t, res).body; got != streamed() {
			g.t.Errorf("the stream was cut or changed: %q", got)
		}
	}
}
