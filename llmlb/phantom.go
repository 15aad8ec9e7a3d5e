package llmlb

import (
	"math"
	"time"
)

// phantom is load that is not there: what failed attempts leave behind. A server
// that fails at once has nothing to do, and would look like the best choice for
// every request that comes; each failure therefore counts for a while as if the
// work were still being done. Failures that come faster than it fades keep the
// server out, all but for a trial now and then. Pure; under the pool's lock.
type phantom struct {
	tokens float64 // prompt tokens, at the time given
	at     time.Time
}

const (
	// phantomLeast is what a failed attempt counts at least, in prompt tokens,
	// however short its prompt was: 0.4 s of work at the assumed speed.
	phantomLeast = 2000
	// phantomHalf is how long it takes for half of it to fade.
	phantomHalf = 5 * time.Second
	// phantomFaint is what is left of a single failure after two such times:
	// from then on the endpoint no longer counts as failing.
	phantomFaint = phantomLeast / 4
	// phantomMost bounds what many failures add up to: a server that is well
	// again must not pay for a hundred of them for half a minute. Who goes on
	// failing is the circuit's business.
	phantomMost = 8 * phantomLeast
)

// fail adds what one failed attempt leaves.
func (p *phantom) fail(now time.Time, uncached int) {
	added := float64(min(max(uncached, phantomLeast), maxPrompt))
	p.tokens = max(added, min(p.left(now)+added, phantomMost))
	p.at = now
}

// left returns what has not faded yet.
func (p *phantom) left(now time.Time) float64 {
	if p.tokens == 0 {
		return 0
	}
	rest := p.tokens * math.Exp2(-float64(max(0, now.Sub(p.at)))/float64(phantomHalf))
	if rest < 1 {
		return 0
	}
	return rest
}
