package llmlb

// others is what scrapes tell of the prompts that other gateways have an engine
// compute. Requests are counted, so those that wait can be guessed at; how much is
// left of the one being computed no engine says. That one is what hurts: a prompt
// of 80,000 tokens holds up whoever comes next for seconds, and its server looks
// no busier than one that writes a single answer.
//
// What gives it away is that the running sequences get hardly any tokens, or that
// others wait. How long it will go on is guessed from how long it has: lengths are
// so unequal that the longer a prompt takes, the more of it is likely left.
// Pure; under the pool's lock. The zero value knows of nobody.
type others struct {
	busy float64 // share of the time between the last two scrapes that went into prompts
	span float64 // seconds that it has been more than half

	seen, all    float64 // requests of others, and all, at scrapes; fading
	prompt, hits float64 // tokens of all prompts, and those cached; fading
}

const (
	// steadyITL is the time in seconds between two tokens of a sequence in which
	// an engine computes no prompt, at the most.
	steadyITL = 0.020

	// residual is the part that counts of the mean work left of a prompt that is
	// being computed at some moment: E[x²] / 2E[x] of all, by renewal theory.
	residual = 0.5

	// othersMemory is how much is kept of the counts of requests with each scrape.
	othersMemory = 0.99
)

// page takes in what a scrape says: of a number of running and waiting requests,
// and of the tokens generated a second since the one before, seconds ago.
func (o *others) page(before, running, waiting, perSecond, seconds float64) {
	o.busy = 0
	if running >= 1 {
		o.busy = max(0, 1-perSecond/max(1, min(before, running))*steadyITL)
	}
	if waiting > 0 {
		o.busy = 1
	}
	if o.busy > 0.5 {
		o.span += seconds
	} else {
		o.busy, o.span = 0, 0
	}
}

// count takes in how many requests there were, and how many of them were others'.
func (o *others) count(foreign, own float64) {
	o.seen = o.seen*othersMemory + foreign
	o.all = o.all*othersMemory + foreign + own
}

// cached takes in how many prompt tokens the engine has counted between two scrapes,
// and how many of them it found in its cache.
func (o *others) cached(prompt, hits float64) {
	o.prompt = o.prompt*othersMemory + prompt
	o.hits = o.hits*othersMemory + hits
}

// left is the work that is probably left of their prompt which is being computed,
// at a server of that speed, where prompts have that mean and mean square.
func (o *others) left(speed, mean, square float64) float64 {
	if o.busy == 0 {
		return 0
	}
	return o.busy * (residual*square/(2*max(1, mean)) + max(0, o.span-1)*speed)
}
