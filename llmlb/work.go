package llmlb

// Work is what a Call is to an endpoint, in tokens.
type Work struct {
	// Uncached is how much of its prompt must be computed there, and Cached how
	// much is believed to be in the endpoint's KV cache.
	Uncached, Cached int

	// Output is how much it is expected to generate.
	Output int
}

// attention is how much more of a token's work is added by each token before it.
// Linear layers cost the same for every token; attention looks back at all of the
// context, so that a prompt of 40,000 tokens is not ten but twenty times the work
// of one of 4,000. The exact value is the model's and the accelerator's: from
// 3e-5 (70B on eight H100) to 9e-5 (8B on one) by the published profiles that
// package engine has its presets from.
const attention = 5e-5

// Effort is the work of computing the prompt, counted in tokens of a prompt so
// short that attention costs nothing. It is what takes the time; tokens are what
// takes memory, and what people pay for.
func (w Work) Effort() int {
	n := float64(w.Uncached)
	return w.Uncached + int(attention*n*(float64(w.Cached)+n/2))
}

// context is how many tokens of KV memory the prompt takes, in use or new.
func (w Work) context() int { return w.Uncached + w.Cached }

// none reports whether there is no work at all: a list of models, a health check.
func (w Work) none() bool { return w.Uncached == 0 && w.Output == 0 }
