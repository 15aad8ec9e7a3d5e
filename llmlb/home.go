package llmlb

// homes is what it has been worth to send prompts of which we know nothing to the
// home of their conversation: whether another gateway has been there before.
// Pure; under the pool's lock.
type homes struct {
	missed float64
	told   int // prompts of which engines have said what they found
	untold int // prompts of which no engine said what it found, since one did
}

// homeWeight is the weight of one prompt in the mean.
const homeWeight = 0.01

// homeUntold is after how many prompts engines are taken not to say it.
const homeUntold = 50

// learn takes in what share of a prompt its home had cached that we did not know
// of.
func (h *homes) learn(share float64) {
	h.told, h.untold = h.told+1, 0
	h.missed += homeWeight * (1 - share - h.missed)
}

// share is that share on average. It begins at one: were homes left before anybody
// has tried them, nobody would ever find anything there.
func (h *homes) share() float64 { return 1 - h.missed }

// learnHome takes in the Call, if it was sent home and the engine says what it
// found in its cache.
func (p *Pool) learnHome(c *Call) {
	if !c.SentHome {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.CachedTokens < 0 || c.PromptTokens <= 0 {
		p.homes.untold = min(p.homes.untold+1, homeUntold)
		return
	}
	p.homes.learn(min(1, float64(max(0, c.CachedTokens-c.Decision.Matched))/float64(c.PromptTokens)))
}

// HomeShare is the share of a prompt that the home of its conversation has on
// average in its cache without our knowing it. It is not known where engines do not
// say what they find. Under the pool's lock.
func (p *Pool) HomeShare() (share float64, known bool) {
	return p.homes.share(), p.homes.untold < homeUntold
}

// HomesTried is of how many prompts engines have said what they found of them at the
// homes of their conversations. Under the pool's lock.
func (p *Pool) HomesTried() int { return p.homes.told }
