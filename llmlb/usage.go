package llmlb

import (
	"cmp"
	"slices"
	"time"
)

// What the pool learns of a model from the usage that answers tell: how many
// bytes of prompt make a token, and how long answers are. Both differ severalfold
// between models and languages, and both are only estimated until then.

// use is one kind of traffic: of one tenant with one model.
type use struct{ tenant, model string }

// usage is what was learned of it. Pure; under the pool's lock.
type usage struct {
	bytes, tokens float64 // of prompts, fading
	prompts       int
	output        float64 // mean tokens of an answer
	answers       int
	at            time.Time

	sampled   float64 // mean bytes per token of samples, fading
	samples   int
	sampledAt time.Time
}

const (
	// maxUses bounds how many kinds of traffic are told apart. Names come from
	// clients, and some engines accept any.
	maxUses = 512

	// usageMemory is how much is kept with each answer.
	usageMemory = 0.95

	// enoughAnswers is how many it takes to be believed.
	enoughAnswers = 3

	// minRatio and maxRatio bound bytes per token: ideograms in a vocabulary
	// that knows few of them, and long words of one letter.
	minRatio, maxRatio = 1, 12

	// maxWeight is the longest prompt, in tokens, that counts in full.
	maxWeight = 4096

	// maxOutput is the longest answer that is believed, tokensAnEvent how many
	// tokens an event of a stream has at most, and outputOutlier and outputSlack
	// bound one answer by the mean.
	maxOutput                  = 32 << 10
	tokensAnEvent              = 16
	outputOutlier, outputSlack = 8, 256
	usualOutput                = 256 // what is expected while nothing is known

	// minPrompt is the shortest prompt, in bytes, that says anything of the
	// ratio: below it the template's own tokens count for more than the text.
	minPrompt = 256
)

// Calibrate replaces the request's estimated prompt length by one that goes by
// the bytes per token seen with its model, or else by a sample of the prompt.
// Token ids are counted, not estimated.
func (p *Pool) Calibrate(c *Call) {
	f := &c.Features
	text := f.PromptBytes - 4*f.TokenIDs
	if f.Opaque || text <= 0 {
		return
	}
	p.mu.Lock()
	u := p.uses[use{model: f.Model}]
	ratio := u.believed(f.Ratio)
	p.mu.Unlock()
	f.InputTokens = max(1, f.TokenIDs+int(float64(text)/ratio+0.5))
}

// expectedOutput is the mean length of this tenant's answers from the model, or
// else of everybody's; 0 when neither is known.
func (p *Pool) expectedOutput(c *Call) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range [...]use{{c.Tenant, c.Model}, {model: c.Model}} {
		if u := p.uses[k]; u != nil && u.answers >= enoughAnswers {
			return max(1, int(u.output+0.5))
		}
	}
	return 0
}

// learnUsage takes in a whole answer.
func (p *Pool) learnUsage(c *Call, now time.Time) {
	if c.Opaque || c.PromptTokens <= 0 && c.OutputTokens <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.use(use{model: c.Model}, now)
	p.errors.observe(c)
	all.learnSample(c.Ratio, now)
	if c.PromptTokens > 0 && c.TokenIDs == 0 && c.PromptBytes >= minPrompt {
		all.learnRatio(c.PromptBytes, c.PromptTokens)
	}
	if c.OutputTokens <= 0 || c.Encodes {
		return
	}
	all.learnOutput(c)
	if c.Tenant != "" {
		p.use(use{c.Tenant, c.Model}, now).learnOutput(c)
	}
}

// learnRatio weighs an answer by its prompt, within bounds: clients can send
// prompts that the engine does not read, and engines can tell anything.
func (u *usage) learnRatio(bytes, tokens int) {
	x := min(max(float64(bytes)/float64(tokens), minRatio), maxRatio)
	weight := float64(min(tokens, maxWeight))
	u.bytes = u.bytes*usageMemory + x*weight
	u.tokens = u.tokens*usageMemory + weight
	u.prompts++
}

func (u *usage) ratio() float64 { return u.bytes / u.tokens }

// learnOutput takes in the length of one answer. Of one that ended at the
// client's own ceiling it is only known that it would have been longer. What an
// engine tells is believed within bounds: the places of a whole pool are given
// away by it.
func (u *usage) learnOutput(c *Call) {
	tokens := float64(min(c.OutputTokens, maxOutput))
	if c.MaxOutputTokens > 0 && c.OutputTokens >= c.MaxOutputTokens {
		tokens = min(tokens, float64(c.MaxOutputTokens))
		if u.answers == 0 && tokens < usualOutput {
			return
		}
		if tokens <= u.output {
			u.answers++ // no longer than what is expected anyway
			return
		}
	}
	if c.TokenEvents > 0 {
		tokens = min(tokens, float64(tokensAnEvent*c.TokenEvents))
	}
	if u.answers > 0 {
		tokens = min(tokens, outputOutlier*u.output+outputSlack)
	}
	if u.answers++; u.answers == 1 {
		u.output = tokens
		return
	}
	u.output = u.output*usageMemory + tokens*(1-usageMemory)
}

// use returns the kind's record. When there are too many, the one that was not
// seen for longest makes room.
func (p *Pool) use(k use, now time.Time) *usage {
	u := p.uses[k]
	if u == nil {
		if len(p.uses) >= maxUses {
			p.dropOldestUse()
		}
		u = new(usage)
		p.uses[k] = u
	}
	u.at = now
	return u
}

func (p *Pool) dropOldestUse() {
	var oldest use
	var at time.Time
	for k, u := range p.uses {
		if at.IsZero() || u.at.Before(at) {
			oldest, at = k, u.at
		}
	}
	delete(p.uses, oldest)
}

// modelStatus lists what is known of each model, the most used first. Under the
// lock.
func (p *Pool) modelStatus() []ModelStatus {
	type row struct {
		ModelStatus
		seen int
	}
	var rows []row
	for k, u := range p.uses {
		if k.tenant != "" {
			continue
		}
		r := row{ModelStatus: ModelStatus{Model: k.model}, seen: u.answers + u.prompts}
		if u.prompts >= enoughAnswers {
			r.BytesPerToken = known(u.ratio())
		}
		if u.answers >= enoughAnswers {
			r.OutputTokens = known(u.output)
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.seen, a.seen), cmp.Compare(a.Model, b.Model))
	})
	list := make([]ModelStatus, 0, min(len(rows), maxModelRows))
	for _, r := range rows[:min(len(rows), maxModelRows)] {
		list = append(list, r.ModelStatus)
	}
	return list
}

// maxModelRows bounds how many models people are shown.
const maxModelRows = 20
