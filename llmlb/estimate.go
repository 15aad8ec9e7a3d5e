package llmlb

import "time"

// How long a prompt is in tokens is believed by, in this order: what usage has
// taught of its model, a sample of the prompt itself, what samples for the model
// have come to, and DefaultRatio.

const (
	// manySamples is how many answered prompts of a model are sampled, and
	// someSamples how many more each time that samplesAgain has passed, as long
	// as no answer tells how many tokens its prompt had. Most streams never do,
	// for their clients do not ask for it, and a sample costs more time than all
	// else that is done for a request.
	manySamples  = 32
	someSamples  = 8
	samplesAgain = 15 * time.Minute
)

// NeedsSample reports whether a sample of a prompt for the model should be taken:
// not once usage has taught its bytes per token, and only now and then when many
// samples were taken and no usage came.
func (p *Pool) NeedsSample(model string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.uses[use{model: model}]
	return u == nil || u.prompts < enoughAnswers && u.samples < manySamples
}

// believed returns the bytes per token to go by for a prompt with the given ratio
// in its sample, 0 where none was taken. Nil means that nothing is known.
func (u *usage) believed(sample float64) float64 {
	switch {
	case u != nil && u.prompts >= enoughAnswers:
		return u.ratio()
	case sample > 0:
		return min(max(sample, minRatio), maxRatio)
	case u != nil && u.samples >= enoughAnswers:
		return u.sampled
	}
	return DefaultRatio
}

// learnSample takes in the sample of a prompt that was answered, 0 where none was
// taken: names of models that nobody serves must not push out what is known of
// those that are.
func (u *usage) learnSample(sample float64, now time.Time) {
	if sample <= 0 {
		if u.samples >= manySamples && now.Sub(u.sampledAt) >= samplesAgain {
			u.samples = manySamples - someSamples
		}
		return
	}
	u.sampledAt = now
	sample = min(max(sample, minRatio), maxRatio)
	if u.samples++; u.samples == 1 {
		u.sampled = sample
		return
	}
	u.sampled = u.sampled*usageMemory + sample*(1-usageMemory)
}

// EstimateBounds are the bucket bounds of what was estimated over what it turned
// out to be. Between 0.9 and 1.1 an estimate is good; from 0.5 down the request
// took twice the place that was kept for it.
var EstimateBounds = []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.33, 2, 4, 10}

// estimateErrors counts how far estimates were off.
type estimateErrors struct{ input, output *Histogram }

func newEstimateErrors() estimateErrors {
	return estimateErrors{input: NewHistogram(EstimateBounds), output: NewHistogram(EstimateBounds)}
}

// EstimateErrors returns how many times the true length the estimates of whole
// answers were, of prompts and of answers, in tokens: the estimate is what was
// believed when the Call was placed. Prompts that came as token ids, and answers
// that have no tokens or of which no number is known, are not in it.
func (p *Pool) EstimateErrors() (input, output *Histogram) {
	return p.errors.input, p.errors.output
}

// observe compares a whole answer with what was expected of it.
func (e *estimateErrors) observe(c *Call) {
	if c.PromptTokens > 0 && c.InputTokens > 0 && c.PromptBytes > 4*c.TokenIDs {
		e.input.observe(float64(c.InputTokens)/float64(c.PromptTokens), 1)
	}
	if c.OutputTokens > 0 && c.expected > 0 && !c.Encodes {
		e.output.observe(float64(c.expected)/float64(c.OutputTokens), 1)
	}
}
