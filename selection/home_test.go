package selection

import (
	"fmt"
	"math"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Two gateways in front of the same servers share nothing, and yet send a new
// conversation to the same one, whatever order their configurations list the
// servers in.
func TestTwoGatewaysAgreeOnAHome(t *testing.T) {
	list := addresses(5)
	turned := append([]string{list[3], list[1], list[4]}, list[0], list[2])
	a, b := newWorld(t, list...), newWorld(t, turned...)
	used := map[string]int{}
	for i := range 200 {
		p := prompt(part{"system", 300}, part{fmt.Sprint("user ", i), 60})
		at, _ := a.serve(p)
		if bt, _ := b.serve(p); at != bt {
			t.Fatalf("conversation %d goes to %s by one gateway and to %s by the other", i, at, bt)
		}
		used[at]++
	}
	if len(used) != 5 {
		t.Errorf("%d of 5 servers got conversations: %v", len(used), used)
	}

	b.settings.AffinityKey = 1 // the reader would have made other keys
	p := prompt(part{"another", 100})
	p.Key = mix(p.Key)
	moved := 0
	for i := range 50 {
		p.Key = uint64(i + 1)
		q := p
		q.Key = mix(p.Key)
		x, _ := a.serve(p)
		if y, _ := b.serve(q); x != y {
			moved++
		}
	}
	if moved < 25 {
		t.Errorf("with another affinity_key %d of 50 conversations live elsewhere, want most", moved)
	}
}

// An endpoint of weight 3 is the home of three times as many conversations, and
// no conversation moves that need not when a weight changes.
func TestWeightedHomes(t *testing.T) {
	homes := func(weights ...float64) []int {
		w := newWorld(t, addresses(len(weights))...)
		for i, x := range weights {
			w.settings.Members[i].Weight = x
		}
		of := make([]int, 4000)
		for key := range of {
			ch := w.made(uint64(key+1)*0x9e3779b97f4a7c15, make([]seat, len(weights))...)
			for i := range ch.left {
				ch.left[i].member = &w.settings.Members[i]
				ch.left[i].home = false
			}
			ch.findHome()
			for i, s := range ch.left {
				if s.home {
					of[key] = i
				}
			}
		}
		return of
	}
	even, heavy := homes(1, 1, 1), homes(3, 1, 1)
	counts, moved := make([]int, 3), 0
	for key, i := range heavy {
		counts[i]++
		if i != even[key] {
			if moved++; i != 0 {
				t.Fatalf("conversation %d moved from %d to %d, whose weights did not change", key, even[key], i)
			}
		}
	}
	if share := float64(counts[0]) / 4000; math.Abs(share-0.6) > 0.03 {
		t.Errorf("weight 3 of 5 is home to %.0f %%, want 60 %%", 100*share)
	}
}

// A hot prefix whose server is busier than the others gets a second home now and
// then; one that is asked for one at a time stays where it is.
func TestAHotPrefixGetsASecondHome(t *testing.T) {
	p := prompt(part{"preamble", 4000})
	w := newWorld(t, addresses(3)...)
	home, _ := w.serve(p)
	for i := range 300 {
		if at, d := w.serve(p); at != home {
			t.Fatalf("call %d of one at a time went to %s (%v), want %s", i, at, d.Reason, home)
		}
	}

	w = newWorld(t, addresses(3)...)
	home, _ = w.serve(p)
	away := 0
	for range 300 {
		open := w.occupy(home, 5)
		c := w.grant(p)
		if where(c) != home {
			away++
		}
		c.EndAttempt(w.now, llmlb.Refused)
		for _, l := range open {
			l.End(w.now)
		}
		w.now = w.now.Add(2 * pendingFor) // what was only asked for is forgotten
	}
	if away < 5 || away > 60 {
		t.Errorf("%d of 300 calls left the busy home, want about one in %d", away, exploreOne)
	}
}

// occupy has the endpoint generate for that many of our own calls.
func (w *world) occupy(address string, calls int) []*llmlb.Lease {
	list := make([]*llmlb.Lease, calls)
	for i := range list {
		w.pool.Lock()
		list[i] = w.pool.Reserve(w.endpoint(address), w.now, llmlb.Work{Uncached: 1, Output: 1})
		w.pool.Unlock()
		list[i].FirstToken()
	}
	return list
}
