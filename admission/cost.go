package admission

import (
	"net/http"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// cost is what the Call has cost in truth, as far as that is known, by which its
// tenant's turn comes.
func (x *exchange) cost() float64 {
	c := x.call
	if x.unused() {
		return 0
	}
	uncached := max(0, c.InputTokens-c.Decision.Matched)
	switch {
	case c.PromptTokens < 0:
	case c.CachedTokens >= 0:
		uncached = max(0, c.PromptTokens-c.CachedTokens)
	default: // most engines do not say what was cached unless told to
		uncached = int(float64(uncached) * float64(c.PromptTokens) / float64(c.InputTokens))
	}
	return queue.Price(uncached, x.generated())
}

// used is what a Call has used, in tokens: what the engine says, or else what was
// estimated and seen.
func (x *exchange) used() (prompt, output int) {
	c := x.call
	if x.unused() {
		return 0, 0
	}
	if c.PromptTokens >= 0 {
		return c.PromptTokens, x.generated()
	}
	return c.InputTokens, x.generated()
}

// unused reports whether no engine has done anything for the Call: it was sent to
// nobody, or all to whom it was had too much to do.
func (x *exchange) unused() bool {
	c := x.call
	return c.Attempts == 0 || !c.Worked() || !c.Generates()
}

// generated is how many tokens the Call got. An engine tells at the end of an
// answer, so of one that the client has not waited for it has not told, and of
// one that comes whole not even the tokens were seen: that it is thrown away, or
// is in a dialect without usage, must not make it free.
func (x *exchange) generated() int {
	c := x.call
	switch seen := max(c.OutputTokens, c.TokenEvents); {
	case c.OutputTokens >= 0 && (c.Outcome == llmlb.Served || !c.Stream):
		return c.OutputTokens
	case c.Encodes:
		return 0
	case c.TokenEvents > 0, c.Stream && c.API != "" && !media(c.API), x.refusedByServer():
		return seen // where tokens can be seen; some tell how many there are as they come
	default:
		return max(seen, c.ExpectedOutput(), written(c))
	}
}

// written is how many tokens the text that came of an answer makes. Pictures are
// not text, and what is told of them is none the longer for it.
func written(c *llmlb.Call) int {
	if c.API == request.Image {
		return 0
	}
	return int(float64(c.AnswerBytes) / llmlb.DefaultRatio)
}

// media reports whether streams of the dialect are not read.
func media(api string) bool { return api == request.Transcription || api == request.Image }

// refusedByServer reports whether the answer is an error.
func (x *exchange) refusedByServer() bool {
	c := x.call
	status := c.Status
	if status == 0 && c.Outcome != llmlb.ClientGone {
		status = x.rec.status // another transport does not tell
	}
	return c.Outcome == llmlb.EngineError || status >= http.StatusBadRequest && status != statusClientGone
}
