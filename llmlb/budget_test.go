package llmlb

import "testing"

// When every server fails, retries must not double the load; when one of many
// dies, what was open there goes elsewhere.
func TestRetryBudget(t *testing.T) {
	for _, tc := range []struct {
		name  string
		calls int
		open  int
		after float64 // seconds
		want  int     // retries allowed, one after the other
	}{
		{"idle", 0, 0, 0, 10},
		{"a hundred calls of late", 100, 0, 0, 30},
		{"half forgotten", 100, 0, 10, 20},
		{"forgotten", 100, 0, 600, 10},
		{"a server dies under a hundred", 0, 100, 0, 110},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b budget
			for range tc.calls {
				b.began(at(0), true)
			}
			got := 0
			for b.take(at(tc.after), tc.open) {
				got++
			}
			if got != tc.want || b.refused != 1 {
				t.Errorf("%d retries allowed, want %d; %d refused", got, tc.want, b.refused)
			}
		})
	}
	t.Run("used up, and a while later", func(t *testing.T) {
		var b budget
		for b.take(at(0), 0) {
		}
		if b.take(at(0.5), 0) {
			t.Error("allowed at once")
		}
		got := 0
		for b.take(at(10.5), 0) {
			got++
		}
		if got != 5 {
			t.Errorf("%d allowed after half was forgotten, want 5", got)
		}
	})
	t.Run("what fails after a server has died", func(t *testing.T) {
		var b budget
		for range 200 {
			b.began(at(0), true)
		}
		for range 100 {
			if !b.take(at(4), 200) {
				t.Fatal("what was open there was not rescued")
			}
		}
		for i := range 8 {
			b.began(at(10), true)
			if !b.take(at(10), 8) {
				t.Fatalf("call %d, six seconds later, is refused another server", i+1)
			}
		}
	})
	t.Run("an outage of an hour", func(t *testing.T) {
		var b budget
		retries := 0
		for i := range 36_000 { // ten calls a second, each tried as often as allowed, three times at most
			now := at(float64(i) / 10)
			b.began(now, true)
			for range 2 {
				if b.take(now, 1) {
					retries++
					b.began(now, false)
				}
			}
		}
		if share := float64(retries) / 36_000; share < 0.2 || share > 0.35 {
			t.Errorf("%.2f retries a call, want about a fifth, and the ten that are always allowed", share)
		}
		if b.followed != uint64(retries) {
			t.Errorf("%d counted, %d made", b.followed, retries)
		}
	})
}

// A call counts once, however often it is tried.
func TestBeginCountsCallsOnce(t *testing.T) {
	p, e := one(t)
	for range 50 {
		c := NewCall(p, nil, t0)
		c.Outcome = Overloaded
		for range 3 {
			c.Begin(e, t0)
		}
		if c.Attempts != 3 || c.Tried != e || c.Outcome != OutcomeNone {
			t.Fatalf("attempts %d, tried %v, outcome %v", c.Attempts, c.Tried, c.Outcome)
		}
	}
	if p.Retries() != 100 {
		t.Errorf("%d retries counted, want 100", p.Retries())
	}
	got := 0
	for p.TakeRetry(t0) {
		got++
	}
	if got != 20 || p.RetriesRefused() != 1 {
		t.Errorf("%d retries allowed after 50 calls, want 10 + 10; %d refused", got, p.RetriesRefused())
	}
}
