package main

import (
	"bytes"
	"fmt"
	"sync/atomic"
)

// checker is given an answer's body as it comes.
type checker interface {
	next(part []byte) error
	end() error
}

// exactly wants the very bytes that the fake engine sends.
type exactly struct {
	want  []byte
	seen  int
	event func() // called for each part that came; may be nil
}

func (e *exactly) next(part []byte) error {
	if e.seen+len(part) > len(e.want) || !bytes.Equal(part, e.want[e.seen:e.seen+len(part)]) {
		return fmt.Errorf("the answer is not what was sent, after %d bytes: %.80q", e.seen, part)
	}
	e.seen += len(part)
	if e.event != nil {
		e.event()
	}
	return nil
}

// end also makes the check ready for another answer.
func (e *exactly) end() error {
	seen := e.seen
	e.seen = 0
	if seen != len(e.want) {
		return fmt.Errorf("the answer ends after %d of %d bytes", seen, len(e.want))
	}
	return nil
}

// counting wants a stream of so many tokens, whatever they are: what llm_simulator
// says depends on which server was asked.
type counting struct {
	tokens int
	text   []byte
	events *atomic.Int64 // of all clients
}

func (c *counting) next(part []byte) error {
	c.text = append(c.text, part...)
	c.events.Add(int64(bytes.Count(part, []byte("data: "))))
	return nil
}

func (c *counting) end() error {
	text := c.text
	c.text = c.text[:0]
	// Each token is an event of its own, with a delta that has text in it.
	if n := bytes.Count(text, []byte(`"content":"`)) - bytes.Count(text, []byte(`"content":""`)); n != c.tokens {
		return fmt.Errorf("the answer has %d tokens, and not %d: %.300q", n, c.tokens, text)
	}
	if !bytes.HasSuffix(text, []byte("\n\ndata: [DONE]\n\n")) {
		return fmt.Errorf("the answer ends with %q", text[max(0, len(text)-100):])
	}
	return nil
}
