package queue

import (
	"testing"
	"time"
)

var bucketStart = time.Unix(1_700_000_000, 0)

func at(s float64) time.Time { return bucketStart.Add(time.Duration(s * float64(time.Second))) }

func TestBucket(t *testing.T) {
	const perMinute = 600 // ten a second
	var b bucket
	if w := b.wait(at(0), 600, perMinute); w != 0 {
		t.Fatalf("a new bucket is not full: %v", w)
	}
	b.take(at(0), 600, perMinute)
	for _, test := range []struct {
		at     float64
		tokens int
		want   time.Duration
	}{
		{0, 0, 0},
		{0, 1, 100 * time.Millisecond},
		{0, 100, 10 * time.Second},
		{4, 100, 6 * time.Second},
		{10, 100, 0},
		{10, 600, 50 * time.Second},
		{10, 6000, 50 * time.Second}, // when it is full
		{60, 6000, 0},
		{3600, 6000, 0},
	} {
		if got := b.wait(at(test.at), test.tokens, perMinute); got != test.want {
			t.Errorf("%d tokens at %v s: wait %v, want %v", test.tokens, test.at, got, test.want)
		}
	}
}

// Who has used more than there was waits until it has come; who gets some back
// never has more than a full bucket.
func TestBucketDebtAndRefund(t *testing.T) {
	const perMinute = 600
	var b bucket
	b.take(at(0), 1800, perMinute)
	if w := b.wait(at(0), 0, perMinute); w != 2*time.Minute {
		t.Errorf("a debt of two minutes: wait %v", w)
	}
	b.give(at(0), 1200, perMinute)
	if w := b.wait(at(0), 300, perMinute); w != 30*time.Second {
		t.Errorf("after the refund: wait %v", w)
	}
	b.give(at(1), 100_000, perMinute)
	b.take(at(1), 600, perMinute)
	if w := b.wait(at(1), 1, perMinute); w == 0 {
		t.Error("a refund made the bucket larger")
	}
}

// A mistake in a limit does not lock a tenant out for ever.
func TestBucketDebtIsBounded(t *testing.T) {
	var b bucket
	for range 3 {
		b.take(at(0), 1<<62, 1)
	}
	if owed := b.owed(at(0)); owed != maxOwed {
		t.Errorf("owes %v", owed)
	}
}

// A reload that changes the rate leaves a tenant the part of its bucket it had.
func TestBucketKeepsItsPartWhenTheRateChanges(t *testing.T) {
	var b bucket
	b.take(at(0), 5000, 10_000)
	if w := b.wait(at(0), 50, 100); w != 0 {
		t.Errorf("half of a smaller bucket: wait %v", w)
	}
	if w := b.wait(at(0), 51, 100); w == 0 {
		t.Error("more than half of a smaller bucket is there")
	}
	if w := b.wait(at(0), 50_000, 100_000); w != 0 {
		t.Errorf("half of a larger bucket: wait %v", w)
	}
}
