package queue

import "time"

// bucket is what a tenant may still use of its tokens per minute. It holds as
// many as come in a minute, they come evenly, and it begins full.
//
// All that is kept is when it will be full again. What is missing now follows
// from that and from the rate, so a reload that changes the rate leaves each
// tenant the part of its bucket that it had, and a tenant whose bucket is full is
// the same as one that was never seen.
type bucket struct{ full time.Time }

const (
	// bucketSpan is how long an empty bucket takes to fill.
	bucketSpan = time.Minute

	// maxOwed bounds a debt. Nobody's mistake in a limit locks a tenant out for
	// longer.
	maxOwed = 24 * time.Hour
)

// span is how long the tokens take to come.
func span(tokens, perMinute int) time.Duration {
	if tokens <= 0 {
		return 0
	}
	return time.Duration(min(float64(tokens)/float64(perMinute), float64(maxOwed/bucketSpan)) * float64(bucketSpan))
}

// owed is how long the bucket takes to be full. Over bucketSpan it is a debt.
func (b *bucket) owed(now time.Time) time.Duration { return max(0, b.full.Sub(now)) }

// wait returns how long it is until the tokens are there. A Call that needs more
// than the bucket holds gets all that it holds, and owes the rest.
func (b *bucket) wait(now time.Time, tokens, perMinute int) time.Duration {
	return max(0, b.owed(now)+min(span(tokens, perMinute), bucketSpan)-bucketSpan)
}

// take takes the tokens, whether they are there or not.
func (b *bucket) take(now time.Time, tokens, perMinute int) {
	b.full = now.Add(min(b.owed(now)+span(tokens, perMinute), maxOwed))
}

// give gives tokens back. What does not fit is lost.
func (b *bucket) give(now time.Time, tokens, perMinute int) {
	b.full = now.Add(max(0, b.owed(now)-span(tokens, perMinute)))
}
