package transport

import (
	"bytes"
	"net/http"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// facts is what an answer has told so far.
type facts struct {
	tokens     int  // events, or answers, in which something was generated
	done       bool // data: [DONE]
	finished   bool // a finish_reason
	failed     bool // an error object, in a stream that began as a success
	overloaded bool // the error says that the engine has too much to do

	prompt, cached, output int // usage, or llmlb.Unknown
}

func newFacts() facts {
	return facts{prompt: llmlb.Unknown, cached: llmlb.Unknown, output: llmlb.Unknown}
}

// count takes in a number that stands at p. Usage may come in every chunk, so
// the last one counts.
func (f *facts) count(p place, n int) {
	switch p {
	case prompt:
		f.prompt = n
	case completion:
		f.output = n
	case cached:
		f.cached = n
	case code:
		f.overloaded = f.overloaded || overloadStatus(n)
	default: // a number we have no use for
	}
}

// said takes in the beginning of an error's code, type or message. TGI tells
// overload only by its message: the code it sends is always 422.
func (f *facts) said(text []byte) {
	switch string(text) {
	case "429", "503", "529":
		f.overloaded = true
	}
	if bytes.Contains(text, []byte("overloaded")) {
		f.overloaded = true
	}
}

// overloadStatus reports whether an HTTP status says "too much to do" rather
// than "broken". 529 is Anthropic's and Dynamo's.
func overloadStatus(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == 529
}

// tell writes the usage into the Call.
func (f *facts) tell(c *llmlb.Call) {
	if f.prompt >= 0 {
		c.PromptTokens = f.prompt
	}
	if f.cached >= 0 {
		c.CachedTokens = f.cached
	}
	if f.output >= 0 {
		c.OutputTokens = f.output
	}
}
