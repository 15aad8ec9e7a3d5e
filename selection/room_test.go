package selection

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// placed sends calls until the pool holds one back, and tells how many it took.
func (w *world) placed(most, tokens int, whole bool) (n int) {
	for ; n < most; n++ {
		c := w.call(prompt(part{"user " + string(rune('a'+n%26)) + string(rune('a'+n/26)), tokens}))
		c.Stream = !whole
		if v, _, _ := Place(c, w.now); v != Granted {
			return n
		}
		c.Begin(c.Lease.Endpoint(), w.now)
	}
	return n
}

// What an endpoint of unknown speed is given at once is counted in calls. Those
// that will show no first token are not: nobody would ever learn that they have
// been computed. What the engine says of its own queue holds for both.
func TestRoomAtAnEndpointOfUnknownSpeed(t *testing.T) {
	for _, tc := range []struct {
		name    string
		whole   bool
		waiting float64 // as scraped; below zero for no scrape
		want    int
	}{
		{"streams, nothing scraped", false, -1, mostBlind},
		{"streams, between two scrapes", false, 0, mostUnseen},
		{"streams, a queue in the engine", false, mostQueued, mostQueued},
		{"whole answers, nothing scraped", true, -1, 200},
		{"whole answers, between two scrapes", true, 0, 200},
		{"whole answers, some wait for a step to end", true, mostQueued - 1, 200},
		{"whole answers, a queue in the engine", true, mostQueued, mostQueued},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t, "10.4.0.1:8000")
			if tc.waiting >= 0 {
				w.scrapeAll(20, tc.waiting, 0.2)
			}
			if n := w.placed(200, 100, tc.whole); n != tc.want {
				t.Errorf("%d calls were placed at once, want %d", n, tc.want)
			}
		})
	}
}

// Once its speed is known an endpoint gets prompts for 0.6 s, also where a
// few stand in its own queue: they do in every engine until a step ends.
func TestRoomByTheSpeedSeen(t *testing.T) {
	for _, tc := range []struct {
		waiting float64
		tokens  int // of each prompt
		want    int
	}{{0, 100, 30}, {1, 20, mostQueued}} {
		w := newWorld(t, "10.4.0.1:8000")
		for i := range 10 { // at 5,000 tokens a second
			w.serve(prompt(part{"first " + string(rune('a'+i)), 1000}))
			w.now = w.now.Add(time.Second)
		}
		w.scrapeAll(1, tc.waiting, 0.2)
		w.pool.Lock()
		speed := w.endpoint("10.4.0.1:8000").Speed().Speed
		w.pool.Unlock()
		if speed < 0.9*llmlb.PriorSpeed || speed > 1.1*llmlb.PriorSpeed {
			t.Fatalf("learned %.0f tokens a second", speed)
		}
		if n := w.placed(200, tc.tokens, false); n < tc.want-3 || n > tc.want+3 {
			t.Errorf("%.0f in the engine's queue: %d calls of %d tokens were placed at once, want %d", tc.waiting, n, tc.tokens, tc.want)
		}
	}
}

// Where answers are being written an endpoint is given more at once, while one tenant
// alone asks. As soon as a second does, half a second's work is the most, so that
// nobody waits long in an engine behind what another has sent.
func TestRoomBesideAnswers(t *testing.T) {
	const address, speed, tokens = "10.4.0.1:8000", 20_000, 100
	for _, tc := range []struct {
		answers int
		second  bool    // tenant
		want    float64 // seconds
	}{{0, false, 0.5}, {8, false, 2}, {8, true, 0.5}} {
		w := newWorld(t, address)
		w.teach(speed)
		w.scrapeAll(0, 0, 0.1)
		w.occupy(address, tc.answers)
		if tc.second {
			c := w.call(prompt(part{"another tenant's", 1}))
			c.Tenant = "second"
			if v, _, _ := Place(c, w.now); v != Granted {
				t.Fatalf("verdict %v, want Granted", v)
			}
		}
		w.pool.Lock()
		want := int(tc.want * w.endpoint(address).Speed().Speed / tokens)
		w.pool.Unlock()
		if n := w.placed(600, tokens, false); n < want-5 || n > want+5 {
			t.Errorf("beside %d answers, second tenant %v: %d calls of %d tokens were placed at once, want %d", tc.answers, tc.second, n, tokens, want)
		}
	}
}

// Whoever comes while the queue is full is let in when a server has room that only
// a newer configuration has: it may use that one.
func TestRoomAtAServerThatWasAdded(t *testing.T) {
	list := addresses(2)
	w := newWorld(t, list[0])
	w.settings.Members[0].MaxConcurrent = 1
	w.occupy(list[0], 1)
	if AnyRoom(w.settings, w.pool, w.now) {
		t.Fatal("there is room at a server that is full")
	}
	newer := *w.settings
	newer.Members = []llmlb.Member{{Address: list[0], MaxConcurrent: 1}, {Address: list[1]}}
	if err := w.pool.Bind(&newer); err != nil {
		t.Fatal(err)
	}
	w.pool.Start(&newer, w.now)
	if !AnyRoom(w.settings, w.pool, w.now) {
		t.Error("no room, though a server was added that has nothing to do")
	}
	if c := w.call(prompt(part{"user", 100})); waiting(c, w.now) != Granted || where(c) != list[1] {
		t.Error("the request that came before did not get a place there")
	}
}

// What cannot be used does not count in how much the pool has to do.
func TestSaturationOfWhatCanBeUsed(t *testing.T) {
	list := addresses(3)
	w := newWorld(t, list...)
	w.scrape(list[0], 4, 5, 0.1)
	w.scrape(list[1], 0, 0, 0)
	w.scrape(list[2], 0, 0, 0)
	w.checked(list[1], llmlb.CheckLoading)
	w.checked(list[2], llmlb.CheckFailed)
	if x := Saturation(w.pool, w.now); x < 0.9 {
		t.Errorf("saturation %.2f, and the only server in use is full", x)
	}
}
