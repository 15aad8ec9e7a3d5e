package simulator

import (
	"encoding/json"
	"net/http"
)

// format is what differs between the two OpenAI endpoints.
type format struct {
	prefix string // of the id
	object string // of a whole answer
	chunk  string // of a part of a stream
	chat   bool
}

var (
	chatFormat = format{"chatcmpl", "chat.completion", "chat.completion.chunk", true}
	textFormat = format{"cmpl", "text_completion", "text_completion", false}
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
			return nil // the client is gone
		}
	}
	text := g.answer.text(p.generated)
	c := choice{FinishReason: &g.call.reason}
	if g.format.chat {
		c.Message = &content{Role: "assistant", Content: &text}
	} else {
		c.Text = &text
	}
	whole := g.completion(g.format.object, c)
	whole.Usage = g.usageOf(p)
	return writeJSON(w, http.StatusOK, whole)
}

// stream writes server-sent events: headers at once, for chat a chunk with the
// role together with the first token, a chunk for each token, one with the
// reason for the end, the usage if asked for, and the end marker.
func (s *server) stream(w http.ResponseWriter, r *http.Request, g *generation) error {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	ev := events{w: w, flush: http.NewResponseController(w).Flush}
	ev.done()

	seen := 0
	for {
		p, err := s.wait(r.Context(), g.call, seen)
		if err != nil {
			return nil // the client is gone
		}
		if seen == 0 && g.format.chat {
			ev.send(g.completion(g.format.chunk, choice{Delta: &content{Role: "assistant", Content: new(string)}}))
		}
		for ; seen < p.generated && ev.err == nil; seen++ {
			ev.send(g.completion(g.format.chunk, g.part(g.answer.token(seen), nil)))
			ev.done()
		}
		if p.finished {
			ev.send(g.completion(g.format.chunk, g.part("", &g.call.reason)))
			if g.usage {
				last := g.completion(g.format.chunk)
				last.Usage = g.usageOf(p)
				ev.send(last)
			}
			ev.write([]byte("[DONE]"))
			ev.done()
		}
		if p.finished || ev.err != nil {
			return nil
		}
	}
}

// part is a choice in a chunk.
func (g *generation) part(text string, reason *string) choice {
	if g.format.chat {
		return choice{Delta: &content{Content: &text}, FinishReason: reason}
	}
	return choice{Text: &text, FinishReason: reason}
}

// events writes server-sent events and keeps the first error.
type events struct {
	w     http.ResponseWriter
	flush func() error
	err   error
}

func (e *events) send(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	e.write(data)
}

func (e *events) write(data []byte) {
	if e.err != nil {
		return
	}
	line := make([]byte, 0, len(data)+8)
	line = append(line, "data: "...)
	line = append(line, data...)
	line = append(line, "\n\n"...)
	_, e.err = e.w.Write(line)
}

// done hands over what was written.
func (e *events) done() {
	if e.err == nil {
		e.err = e.flush()
	}
}
