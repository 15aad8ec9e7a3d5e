package health

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxCanary bounds a canary's answer. A few tokens with all that engines put
// around them are some KB.
const maxCanary = 64 << 10

// canaryAnswer is an answer as far as it has been read.
type canaryAnswer struct {
	reader answer.Reader
	began  time.Time
	ttft   time.Duration // to the first token, or to the end of an answer without
	body   []byte
	full   bool // there was more
}

// read reads the answer to its end, or until it is too long or tells an error.
func (a *canaryAnswer) read(from io.Reader) error {
	piece := make([]byte, 4<<10)
	for {
		n, err := from.Read(piece)
		a.reader.Observe(piece[:n])
		a.body = append(a.body, piece[:n]...)
		facts := a.reader.Facts()
		if a.ttft == 0 && (facts.Tokens > 0 || facts.Finished) {
			a.ttft = max(1, time.Since(a.began))
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case facts.Failed && a.reader.Stream() && endsEvent(a.body):
			return nil // what it says of the error has been read
		case len(a.body) >= maxCanary:
			a.full = true
			return nil
		}
	}
}

func endsEvent(b []byte) bool {
	return bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\n\r\n"))
}

// judge says what the answer shows. A model may spend its few tokens on what it
// does not say, or end at once: what counts is that something was generated, or
// that the answer came to its end.
func (a *canaryAnswer) judge(sh *shown, o *llmlb.Canary, err, over error) *shown {
	f := a.reader.Facts()
	stream := a.reader.Stream()
	switch {
	case f.Failed && f.Overloaded:
		return sh
	case f.Failed && f.Status < http.StatusInternalServerError:
		return sh.is(llmlb.CheckUnsuitable, reason("error in its answer: "+strconv.Itoa(f.Status)))
	case f.Failed:
		return sh.is(llmlb.CheckFailed, reason("error in its answer: "+strconv.Itoa(f.Status)))
	case err != nil && f.Whole():
		// All of it was there, whatever came then.
	case errors.Is(over, context.DeadlineExceeded):
		sh.Slow = true
		if f.Tokens == 0 {
			return sh.is(llmlb.CheckFailed, noToken(o))
		}
		return sh.is(llmlb.CheckFailed, reason("no end within "+o.Timeout.String()))
	case err != nil:
		return sh.is(llmlb.CheckFailed, errorReason(cmp.Or(over, err), o.Timeout))
	case a.full && f.Tokens == 0:
		return sh.is(llmlb.CheckFailed, "no token in 64 KiB")
	case a.full:
	case f.Tokens == 0 && !f.Finished:
		return sh.is(llmlb.CheckFailed, "nothing generated")
	case !f.Whole():
		return sh.is(llmlb.CheckFailed, "its answer breaks off")
	}
	said := textOf(a.body, stream)
	switch {
	case !stream && !said.answers:
		return sh.is(llmlb.CheckFailed, "nothing generated")
	case o.Expect != "" && !said.holds(o.Expect):
		return sh.is(llmlb.CheckFailed, "its answer is not the one expected")
	}
	return sh.is(llmlb.CheckPassed, "")
}

func noToken(o *llmlb.Canary) reason { return reason("no token within " + o.Timeout.String()) }

// spoken is the text of an answer, and what the model thought before it.
type spoken struct {
	answers          bool // there is one, be it empty
	content, thought strings.Builder
}

// holds reports whether one of both has the words. A model that thinks first may
// spend all its tokens on that.
func (s *spoken) holds(words string) bool {
	return strings.Contains(s.content.String(), words) || strings.Contains(s.thought.String(), words)
}

// said is a piece of an answer, as engines write it.
type said struct {
	Content          text `json:"content"`
	Reasoning        text `json:"reasoning"`
	ReasoningContent text `json:"reasoning_content"`
}

// textOf collects the text of an answer: an object, or events with one each.
func textOf(body []byte, stream bool) *spoken {
	s := new(spoken)
	if !stream {
		s.add(body)
		return s
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			s.add(data)
		}
	}
	return s
}

func (s *spoken) add(data []byte) {
	var object struct {
		Choices []struct {
			Text    text `json:"text"`
			Delta   said `json:"delta"`
			Message said `json:"message"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &object) != nil {
		return
	}
	for i := range object.Choices {
		c := &object.Choices[i]
		s.answers = true
		s.content.WriteString(string(c.Text + c.Delta.Content + c.Message.Content))
		s.thought.WriteString(string(c.Delta.Reasoning + c.Delta.ReasoningContent + c.Message.Reasoning + c.Message.ReasoningContent))
	}
}
