package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
)

// A slight imbalance is no reason to leave a cache. A router that compared counts
// of requests, and sent a turn elsewhere as soon as some other server had one less,
// lost most of its cache hits at a load that was no load. Here ten conversations of
// eight turns take turns on three servers, which have one or two other requests
// open at any moment, at random, and nobody is overrun: four turns of five go to
// the server of the turn before at least.
func TestASlightImbalanceMovesNoConversation(t *testing.T) {
	const conversations, turns = 10, 8
	for _, strategy := range []string{"work", "prefix_spill", "weighted"} {
		t.Run(strategy, func(t *testing.T) {
			g, list := trio(t, fast+"strategy "+strategy+"\n")
			for _, b := range list {
				b.seen()
			}
			others := newBystanders(t, g, list)
			// They have been at work: how fast they are is known.
			for i := range 12 {
				g.post(chat(true, "", prose(fmt.Sprint(i, " before all that"), 600)))
			}
			chance := rand.New(rand.NewPCG(7, 0xaff))
			talks := make([]*conversation, conversations)
			for i := range talks {
				talks[i] = &conversation{name: fmt.Sprint("conversation ", i)}
			}
			stayed, uneven := 0, 0
			for turn := range turns {
				for _, i := range chance.Perm(conversations) {
					open := []int{1 + chance.IntN(2), 1 + chance.IntN(2), 1 + chance.IntN(2)}
					others.have(open...)
					c := talks[i]
					if r := c.turn(g); r.status != http.StatusOK {
						t.Fatalf("status %d: %s", r.status, r.body)
					}
					if turn == 0 {
						continue
					}
					before := c.servers[turn-1]
					if open[before[0]-'a'] > slices.Min(open) {
						uneven++
					}
					if c.servers[turn] == before {
						stayed++
					}
				}
			}
			others.have(0, 0, 0)
			const all = conversations * (turns - 1)
			if stayed*100 < all*80 {
				t.Errorf("%d of %d turns went to the server of the turn before, want 80 %%", stayed, all)
			}
			// Or this is no test of it.
			if uneven < all/5 {
				t.Errorf("in %d of %d turns another server was less busy, want a fifth at least", uneven, all)
			}
			used := map[string]bool{}
			for _, c := range talks {
				used[c.servers[0]] = true
			}
			if len(used) < 2 {
				t.Errorf("all conversations began at %v, where staying proves nothing", used)
			}
		})
	}
}

// bystanders are streams of others, which servers keep open after their first
// token.
type bystanders struct {
	t       *testing.T
	gateway *gateway
	servers []*backend
	at      [][]*bystander // by server
	sent    int
	landed  chan *bystander

	mu   sync.Mutex
	held map[string]*bystander // by what they ask
}

type bystander struct {
	server  int
	release func()
	held    <-chan struct{} // until then
	answer  <-chan reply
}

// newBystanders has the servers keep what bystanders ask, and answer everything
// else at once.
func newBystanders(t *testing.T, g *gateway, servers []*backend) *bystanders {
	t.Helper()
	b := &bystanders{
		t: t, gateway: g, servers: servers, at: make([][]*bystander, len(servers)),
		landed: make(chan *bystander, 1), held: make(map[string]*bystander),
	}
	t.Cleanup(func() { // Caddy stops when nothing is open any more
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, x := range b.held {
			x.release()
		}
	})
	usual := telling(unsaid)
	for i, s := range servers {
		s.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			x := b.of(body)
			if x == nil {
				usual(w, r, body)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, e := range answerEvents[:2] {
				send(w, e)
			}
			x.server = i
			b.landed <- x
			<-x.held
			for _, e := range answerEvents[2:] {
				send(w, e)
			}
		})
	}
	return b
}

// of finds whose request it is: nobody's here if it is a conversation's.
func (b *bystanders) of(body []byte) *bystander {
	var q struct {
		Messages []struct{ Content string }
	}
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held[q.Messages[0].Content]
}

// have sends and ends bystanders until each server has so many.
func (b *bystanders) have(want ...int) {
	b.t.Helper()
	missing := 0
	for i, n := range want {
		for len(b.at[i]) > n {
			b.end(i)
		}
		missing += n - len(b.at[i])
	}
	for tries := 0; missing > 0; tries++ {
		if tries == 500 {
			b.t.Fatalf("of 500 requests none went to where one is missing: want %v", want)
		}
		// Where it goes is the gateway's to say: one too many is taken back.
		if i := b.send(); len(b.at[i]) > want[i] {
			b.end(i)
		} else {
			missing--
		}
	}
	for i, s := range b.servers {
		s.set(load{running: float64(want[i])})
	}
}

// send has one more come, and tells where to.
func (b *bystanders) send() (server int) {
	b.t.Helper()
	b.sent++
	text := prose(fmt.Sprintf("bystander %d", b.sent), 600)
	held := make(chan struct{})
	x := &bystander{held: held, release: sync.OnceFunc(func() { close(held) })}
	b.mu.Lock()
	b.held[text] = x
	b.mu.Unlock()
	x.answer = b.gateway.later(b.t, chat(true, "", text))
	arrives(b.t, "a request at a server", b.landed)
	b.at[x.server] = append(b.at[x.server], x)
	return x.server
}

// end ends the server's latest.
func (b *bystanders) end(server int) {
	b.t.Helper()
	last := len(b.at[server]) - 1
	x := b.at[server][last]
	b.at[server] = b.at[server][:last]
	x.release()
	if r := arrives(b.t, "an answer", x.answer); r.body != streamed() {
		b.t.Errorf("status %d: %q", r.status, r.body)
	}
}
