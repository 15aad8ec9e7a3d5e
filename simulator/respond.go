package simulator

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// format is what differs between the two OpenAI endpoints.
type format struct {
	prefix string // of the id
	object string // of a whole answer
	chunk  string // of a part of a stream
	chat   bool
	prompt func(*body) ([]byte, error)
}

var (
	chatFormat = format{"chatcmpl", "chat.completion", "chat.completion.chunk", true, (*body).chatPrompt}
	textFormat = format{"cmpl", "text_completion", "text_completion", false, (*body).completionPrompt}
)

type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index        int      `json:"index"`
	Message      *content `json:"message,omitempty"`
	Delta        *content `json:"delta,omitempty"`
	Text         *string  `json:"text,omitempty"`
	Logprobs     *string  `json:"logprobs"`
	FinishReason *string  `json:"finish_reason"`
}

type content struct {
	Role    string  `json:"role,omitempty"`
	Content *string `json:"content,omitempty"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	TotalTokens      int `json:"total_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	Details          struct {
		CachedTokens int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (g *generation) completion(object string, choices ...choice) completion {
	if choices == nil {
		choices = []choice{} // an empty list, not null
	}
	return completion{ID: g.id, Object: object, Created: g.created, Model: g.model, Choices: choices}
}

func (g *generation) usageOf(p progress) *usage {
	u := &usage{PromptTokens: g.call.input, CompletionTokens: p.generated, TotalTokens: g.call.input + p.generated}
	u.Details.CachedTokens = p.cached
	return u
}

// whole writes the answer in one piece when it is complete.
func (s *server) whole(w http.ResponseWriter, r *http.Request, g *generation) error {
	var p progress
	for !p.finished {
		var err error
		if p, err = s.wait(r.Context(), g.call, p.generated); err != nil {
			return s.gone()
		}
		if g.fault.kind == faultErrorAfter && (p.generated >= g.fault.after || p.finished) {
			return fail(w, g.fault.code, g.fault.says())
		}
	}
	text := g.answer.text(p.generated)
	c := choice{FinishReason: &g.call.reason}
	if g.fault.kind == faultNoEnd {
		c.FinishReason = nil
	}
	if g.format.chat {
		c.Message = &content{Role: "assistant", Content: &text}
	} else {
		c.Text = &text
	}
	whole := g.completion(g.format.object, c)
	whole.Usage = g.usageOf(p)
	data, err := json.Marshal(whole)
	if err != nil {
		return err
	}
	// Where the text stands in it, as far as a fault lets it come.
	part := g.answer.text(min(g.fault.after, p.generated))
	return s.send(w, r, g.fault, data, strings.Index(string(data), text)+len(part))
}

// send writes a whole answer, or what a fault makes of it: a part of it up to
// an offset, and then the end of the connection, of everything or of the answer.
func (s *server) send(w http.ResponseWriter, r *http.Request, f fault, data []byte, offset int) error {
	if f.kind == faultMalformedAfter {
		data = data[:offset]
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(http.StatusOK)
	switch f.kind {
	case faultTrickle:
		if writeSlowly(r.Context(), w, data, f.wait) != nil {
			return s.gone()
		}
		return nil
	case faultCutAfter, faultStallAfter:
		data = data[:offset]
	}
	_, err := w.Write(data)
	switch f.kind {
	case faultCutAfter, faultStallAfter:
		_ = http.NewResponseController(w).Flush()
		if f.kind == faultStallAfter {
			hang(r)
			return s.gone()
		}
		sever(w, true)
		return nil
	case faultCloseAfterReply:
		closeAfter(w, r, f, false)
	}
	return err
}
