package simulator

import (
	"encoding/json"
	"net/http"
)

// stream writes server-sent events: for chat a chunk with the role together
// with the first token, a chunk for each token, one with the reason for the
// end, the usage if asked for, and the end marker. A fault breaks it on its way;
// an answer of fewer tokens than the fault waits for breaks at its end.
func (s *server) stream(w http.ResponseWriter, r *http.Request, g *generation, ev *events) error {
	if f := g.fault; f.kind == faultTrickle {
		ev.put = func(line []byte) error { return writeSlowly(r.Context(), w, line, f.wait) }
	}
	seen, strike := 0, g.fault.strikesAt()
	for {
		p, err := s.wait(r.Context(), g.call, seen)
		if err != nil {
			return s.gone()
		}
		for ; seen < p.generated && ev.err == nil; seen++ {
			if seen == strike {
				return s.strike(w, r, g.fault, ev)
			}
			if seen == 0 && g.format.chat {
				ev.send(g.completion(g.format.chunk, choice{Delta: &content{Role: "assistant", Content: new(string)}}))
			}
			ev.broken = g.fault.kind == faultMalformedAfter && g.fault.after == seen
			ev.send(g.completion(g.format.chunk, g.part(g.answer.token(seen), nil)))
			ev.done()
		}
		if p.finished && ev.err == nil {
			if strike >= 0 {
				return s.strike(w, r, g.fault, ev)
			}
			ev.broken = g.fault.kind == faultMalformedAfter && g.fault.after >= seen
			s.finish(w, r, g, ev, p)
		}
		switch {
		case ev.err != nil:
			return s.gone()
		case p.finished:
			return nil
		}
	}
}

// finish writes what follows the last token.
func (s *server) finish(w http.ResponseWriter, r *http.Request, g *generation, ev *events, p progress) {
	if g.fault.kind == faultNoEnd {
		return
	}
	ev.send(g.completion(g.format.chunk, g.part("", &g.call.reason)))
	if g.usage {
		last := g.completion(g.format.chunk)
		last.Usage = g.usageOf(p)
		ev.send(last)
	}
	if g.fault.kind != faultNoDone {
		ev.write([]byte("[DONE]"))
	}
	ev.done()
	if g.fault.kind == faultCloseAfterReply {
		closeAfter(w, r, g.fault, true)
	}
}

// strike does what a fault does in the middle of a stream.
func (s *server) strike(w http.ResponseWriter, r *http.Request, f fault, ev *events) error {
	switch f.kind {
	case faultErrorAfter:
		ev.fail(f.code, f.says())
	case faultCutAfter:
		sever(w, true)
	case faultStallAfter:
		hang(r)
		return s.gone()
	}
	return nil
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
	put    func([]byte) error // a whole event
	flush  func() error
	broken bool // the next event is cut short
	err    error
}

// openStream sends the headers of a stream.
func openStream(w http.ResponseWriter) *events {
	h := w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	ev := &events{flush: http.NewResponseController(w).Flush}
	ev.put = func(line []byte) error {
		_, err := w.Write(line)
		return err
	}
	ev.done()
	return ev
}

func (e *events) send(v any) {
	data, err := json.Marshal(v)
	if err != nil {
		e.err = err
		return
	}
	if e.broken {
		data, e.broken = data[:len(data)/2], false
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
	e.err = e.put(line)
}

// fail ends the stream with an error event, as engines do whose status has been
// sent.
func (e *events) fail(status int, message string) {
	e.send(failure(status, message))
	e.write([]byte("[DONE]"))
	e.done()
}

// done hands over what was written.
func (e *events) done() {
	if e.err == nil {
		e.err = e.flush()
	}
}
