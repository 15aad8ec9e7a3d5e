package llmlb

import (
	"math/rand/v2"
	"testing"
	"time"
)

// How long a server that has too much to do is left alone: as long as it asks
// for, within reason, else a little longer each time.
func TestOverloadPauses(t *testing.T) {
	type said struct {
		at, retryAfter float64
	}
	for _, tc := range []struct {
		name   string
		said   []said
		served float64 // when something was served, 0 for never
		until  float64
	}{
		{"without Retry-After", []said{{0, 0}}, 0, 0.25},
		{"with", []said{{0, 1}}, 0, 1},
		{"a longer one from a call that was under way", []said{{0, 1}, {0.2, 5}}, 0, 5.2},
		{"a shorter one", []said{{0, 5}, {0.2, 1}}, 0, 5},
		{"one without after one with", []said{{0, 5}, {0.2, 0}}, 0, 5},
		{"absurd", []said{{0, 999_999}}, 0, 30},
		{"negative", []said{{0, -1}}, 0, 0.25},
		{"again and again", []said{{0, 0}, {0.3, 0}, {1, 0}, {2.5, 0}, {5, 0}, {10, 0}}, 0, 15},
		{"several of one moment", []said{{0, 0}, {0.1, 0}, {0.1, 0}, {0.2, 0}}, 0, 0.45},
		{"served in between", []said{{0, 0}, {0.3, 0}, {1, 0}, {3, 0}}, 2, 3.25},
		{"served, and the pause stands", []said{{0, 20}}, 2, 20},
		{"long ago", []said{{0, 0}, {0.3, 0}, {1, 0}, {60, 0}}, 0, 60.25},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var o overload
			for _, s := range tc.said {
				if tc.served > 0 && s.at > tc.served {
					o.served()
				}
				o.said(at(s.at), time.Duration(s.retryAfter*float64(time.Second)), 0)
			}
			if tc.served > 0 {
				o.served()
			}
			if !o.until.Equal(at(tc.until)) {
				t.Errorf("new work after %v, want %v s", o.until.Sub(t0), tc.until)
			}
		})
	}
}

// A pause never becomes shorter, and never lasts longer than the longest.
func TestOverloadNeverShortens(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	var o overload
	now := t0
	for range 20_000 {
		now = now.Add(time.Duration(random.IntN(2000)) * time.Millisecond)
		before := o.until
		switch random.IntN(4) {
		case 0:
			o.served()
		case 1:
			o.said(now, time.Duration(random.IntN(100)-10)*time.Second, 0)
		default:
			o.said(now, 0, 0)
		}
		if o.until.Before(before) || o.until.Sub(now) > MaxRetryAfter || o.pause > overloadMost {
			t.Fatalf("%v before, %v after; pause %v", before.Sub(now), o.until.Sub(now), o.pause)
		}
	}
}

// The table says that the server is overloaded, since when, and until when; it is
// neither down, nor does anybody hear of it.
func TestAnOverloadedEndpointIsShownAndNotNews(t *testing.T) {
	p, e := one(t)
	p.OnState(func(c Change) { t.Errorf("news: %v > %v", c.From, c.To) })
	e.NoteOverload(at(0), 2*time.Second)
	row := p.Status(at(0.5)).Endpoints[0]
	if row.State != "overloaded" || row.Reason != "has too much to do" || row.Next != "new work in 1.5s" ||
		!row.Since.Equal(at(0)) || !row.RetryAt.Equal(at(2)) || row.Circuit != "closed" {
		t.Errorf("row %+v", row)
	}
	if down(e, 0.5) {
		t.Error("an overloaded endpoint is down")
	}
	if row := p.Status(at(2)).Endpoints[0]; row.State != "up" || row.Reason != "" || row.Next != "" || !row.RetryAt.IsZero() {
		t.Errorf("afterwards %+v", row)
	}
}

// A server that refuses a call while it has some of ours shows how many it takes:
// after the pause it gets no more than that, and one more for each it serves.
func TestARefusalShowsHowMuchAServerTakes(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	e := &Endpoint{}
	if _, known := e.CanTake(now); known {
		t.Error("a bound, though nothing was refused")
	}
	e.overload.said(now, time.Second, 4)
	if n, _ := e.CanTake(now); n != 4 {
		t.Errorf("%d calls are thought to fit, want the 4 that were there", n)
	}
	e.overload.said(now, time.Second, 6) // sent before the first answer came
	e.overload.served()
	if n, _ := e.CanTake(now); n != 5 {
		t.Errorf("%d calls are thought to fit after one was served, want 5", n)
	}
	if _, known := e.CanTake(now.Add(time.Second + overloadFade)); known {
		t.Error("it is still held to what it took long ago")
	}
	e.overload.said(now.Add(time.Minute), time.Second, 0)
	if n, _ := e.CanTake(now.Add(time.Minute)); n != 1 {
		t.Errorf("%d calls are thought to fit, want one: otherwise it gets none for ever", n)
	}
}
