package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
)

// answer is all that a client saw of one streamed chat completion, be it whole
// or not. The simulators echo: the text of a whole answer is the question.
type answer struct {
	question string

	status   int
	endpoint string // which endpoint served, by the gateway's name
	attempts string // how many were tried, by the gateway's header

	raw     []byte
	text    string
	tokens  int      // events with text
	ids     []string // the different ids of the events; one answer has one
	models  []string // the different models of the events; each simulator has its own
	finish  string   // the finish reason
	done    bool     // the word that ends the stream was there
	strange []string // lines that do not belong into a stream of these simulators

	sent, first, last, ended time.Time // first and last event with text

	err error // how the connection ended; nil is a clean end
}

// event is what is looked at of one event of a stream.
type event struct {
	ID      string
	Model   string
	Choices []struct {
		FinishReason string `json:"finish_reason"`
		Delta        struct{ Content string }
	}
	Error json.RawMessage
}

// streams is the client of all crowds: it reads bytes as they come, and hides
// nothing of how a connection ends.
var streams = &http.Client{Transport: &http.Transport{DisableCompression: true, DisableKeepAlives: true}}

// listen asks one question and reads along until the stream ends, however it
// does. onToken is called after every event with text, with their number.
func listen(ctx context.Context, address, question string, onToken func(tokens int)) *answer {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	a := &answer{question: question, sent: time.Now()}
	a.err = a.read(ctx, address, onToken)
	a.ended = time.Now()
	return a
}

func (a *answer) read(ctx context.Context, address string, onToken func(int)) error {
	body, err := json.Marshal(map[string]any{
		"model": "chat", "stream": true, "max_tokens": 100,
		"messages": []map[string]string{{"role": "user", "content": a.question}},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := streams.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	a.status, a.endpoint, a.attempts = res.StatusCode, res.Header.Get("X-LLM-Endpoint"), res.Header.Get("X-LLM-Attempts")
	lines := bufio.NewReader(res.Body)
	for {
		line, err := lines.ReadBytes('\n')
		a.raw = append(a.raw, line...)
		if err != nil && !errors.Is(err, io.EOF) {
			return err // what a break leaves of a line is none
		}
		if a.line(line) && onToken != nil {
			onToken(a.tokens)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
	}
}

// line takes in one line of the stream and reports whether it brought text.
func (a *answer) line(line []byte) (text bool) {
	data, isData := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
	var e event
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return false
	case isData && string(data) == "[DONE]":
		a.done = true
		return false
	case !isData || json.Unmarshal(data, &e) != nil || e.Error != nil || e.ID == "":
		a.strange = append(a.strange, string(line))
		return false
	}
	a.ids, a.models = withOne(a.ids, e.ID), withOne(a.models, e.Model)
	for _, c := range e.Choices {
		a.finish += c.FinishReason
		if c.Delta.Content == "" {
			continue
		}
		text = true
		a.text += c.Delta.Content
		a.tokens++
		a.last = time.Now()
		if a.first.IsZero() {
			a.first = a.last
		}
	}
	return text
}

func withOne(list []string, one string) []string {
	if slices.Contains(list, one) {
		return list
	}
	return append(list, one)
}

// whole reports whether the client has a complete answer.
func (a *answer) whole() bool {
	return a.err == nil && a.status == http.StatusOK && a.finish != "" && a.done
}

// retried reports whether the gateway says that it tried more than one server.
func (a *answer) retried() bool { return a.attempts != "" && a.attempts != "1" }

// from is the simulator whose bytes the client has.
func (a *answer) from() string { return strings.Join(a.models, "+") }

// wrong says what no client may ever see, whatever happens to servers: bytes of
// two answers, a cut answer that looks complete, or no answer at all. It is empty
// for a whole answer, and for one that is cut and shows it.
func (a *answer) wrong() string {
	switch {
	case a.status != http.StatusOK:
		return fmt.Sprintf("is none: status %d, %q, end of connection: %v", a.status, a.raw, a.err)
	case len(a.ids) > 1 || len(a.models) > 1:
		return fmt.Sprintf("has events of several answers: ids %v, models %v", a.ids, a.models)
	case len(a.strange) > 0:
		return fmt.Sprintf("has lines that no simulator wrote: %q", a.strange)
	case a.tokens == 0:
		return fmt.Sprintf("ends before the first token, with another server at hand: %v", a.err)
	case a.from() != "sim-"+a.endpoint:
		return fmt.Sprintf("has bytes of %q and says it is from endpoint %q", a.from(), a.endpoint)
	case a.whole() && a.text == a.question:
		return ""
	case a.whole():
		return fmt.Sprintf("ends well and says %q instead of %q", a.text, a.question)
	case a.err == nil || a.finish != "" || a.done:
		return fmt.Sprintf("is cut after %d tokens and looks complete: finish reason %q, [DONE] %t, end of connection: %v", a.tokens, a.finish, a.done, a.err)
	case !strings.HasPrefix(a.question, a.text):
		return fmt.Sprintf("is cut and says %q, which is no beginning of %q", a.text, a.question)
	}
	return ""
}
