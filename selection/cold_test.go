package selection

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// made is a choice among seats that the test describes.
func (w *world) made(key uint64, seats ...seat) *choice {
	ch := &choice{call: w.call(llmlb.Features{Key: key}), settings: w.settings, now: w.now, random: 1}
	for i := range seats {
		seats[i].endpoint, seats[i].share = w.settings.Members[i].Endpoint, 1
		ch.left = append(ch.left, &seats[i])
	}
	ch.findHome()
	return ch
}

// keyAt returns a conversation whose home is the endpoint.
func (w *world) keyAt(i int) uint64 {
	for key := uint64(1); ; key++ {
		won := 0
		for j := range w.settings.Members {
			if rendezvous(key, w.settings.Members[j].Endpoint) > rendezvous(key, w.settings.Members[won].Endpoint) {
				won = j
			}
		}
		if won == i {
			return key
		}
	}
}

// A home keeps its conversations while it has room, by each of the bounds.
func TestWhenAConversationLeavesItsHome(t *testing.T) {
	for _, tc := range []struct {
		name  string
		seats []seat // the first is the home
		stays bool
	}{
		{"all idle", []seat{{cost: 1}, {cost: 1}, {cost: 1}, {cost: 1}}, true},
		{"one call more than the others", []seat{{own: 1, cost: 1}, {cost: 1}, {cost: 1}, {cost: 1}}, true},
		{"two calls more than idle ones", []seat{{own: 2, cost: 1}, {cost: 1}, {cost: 1}, {cost: 1}}, false},
		{"a little over the mean", []seat{{own: 12, cost: 1}, {own: 10, cost: 1}, {own: 10, cost: 1}, {own: 10, cost: 1}}, true},
		{"too far over the mean", []seat{{own: 13, cost: 1}, {own: 10, cost: 1}, {own: 10, cost: 1}, {own: 10, cost: 1}}, false},
		{"too far over the emptiest", []seat{{own: 10, cost: 1}, {own: 10, cost: 1}, {own: 10, cost: 1}, {own: 2, cost: 1}}, false},
		{"a little more to wait for", []seat{{wait: 1.2}, {wait: 1}, {wait: 1}, {wait: 1}}, true},
		{"much more to wait for", []seat{{wait: 1.4}, {wait: 1}, {wait: 1}, {wait: 1}}, false},
		{"what nobody notices", []seat{{wait: 0.04}, {}, {}, {}}, true},
		{"a slow server with nothing to do", []seat{{cost: 3}, {cost: 1}, {cost: 1}, {cost: 1}}, true},
		{"two cold calls more", []seat{{own: 3, cold: 2}, {own: 3}, {own: 3}, {own: 3}}, false},
	} {
		w := newWorld(t, addresses(4)...)
		ch := w.made(w.keyAt(0), tc.seats...)
		if stays := ch.home() == ch.left[0]; stays != tc.stays {
			t.Errorf("%s: stays at home %v, want %v", tc.name, stays, tc.stays)
		}
	}
}

// What decides between costs that are nearly equal, in its order.
func TestNearTies(t *testing.T) {
	for _, tc := range []struct {
		name  string
		seats []seat
		cold  bool
		want  int
	}{
		{"clearly cheaper wins over all else", []seat{{cost: 1, own: 9}, {cost: 1.1, matched: 500}}, true, 0},
		{"the longer match", []seat{{cost: 1}, {cost: 1.02, matched: 64, own: 3}}, true, 1},
		{"fewer cold calls", []seat{{cost: 1, cold: 2, own: 2}, {cost: 1.02, cold: 1, own: 3}}, true, 1},
		{"fewer own calls", []seat{{cost: 1, own: 2}, {cost: 1.02, own: 1}}, true, 1},
		{"the longest without a cold prefix", []seat{{cost: 1}, {cost: 1.02}, {cost: 1.01}}, true, 1},
	} {
		w := newWorld(t, addresses(len(tc.seats))...)
		takeCold := func(i int) {
			w.pool.Lock()
			defer w.pool.Unlock()
			w.pool.Reserve(w.settings.Members[i].Endpoint, w.now, llmlb.Work{Uncached: 1, Output: 1}).TakeCold()
		}
		takeCold(1)
		for i := range w.settings.Members {
			if i != 1 {
				takeCold(i)
			}
		}
		ch := w.made(0, tc.seats...)
		if got := ch.least(ch.left, tc.cold); got != ch.left[tc.want] {
			t.Errorf("%s: got %s", tc.name, got.endpoint.Address())
		}
	}
}

// Requests without a prompt have no home; they go anywhere.
func TestRequestsWithoutAPromptGoAnywhere(t *testing.T) {
	w := newWorld(t, addresses(3)...)
	got := map[string]int{}
	for range 300 {
		a, _ := w.serve(llmlb.Features{})
		got[a]++
	}
	w.within(got, 60, 140)
}

// When an endpoint leaves, only its own conversations move.
func TestOnlyTheConversationsOfALeavingEndpointMove(t *testing.T) {
	w := newWorld(t, addresses(4)...)
	gone := addresses(4)[3]
	moved := 0
	for key := uint64(1); key <= 400; key++ {
		f := llmlb.Features{Key: key, InputTokens: 100}
		before, _ := w.serve(f)
		w.only(addresses(3)...)
		after, _ := w.serve(f)
		w.only(addresses(4)...)
		if before != gone && after != before {
			t.Fatalf("a conversation of %s moved to %s when %s left", before, after, gone)
		}
		if before == gone {
			moved++
		}
	}
	if moved < 60 || moved > 140 {
		t.Errorf("%d of 400 conversations were at the one that left", moved)
	}
}
