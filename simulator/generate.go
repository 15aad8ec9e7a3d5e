package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// maxBody bounds what is read of a request; the longest prompt that fits in
// any preset's memory is a sixth of it.
const maxBody = 32 << 20

// generation is one answer in the making.
type generation struct {
	format  *format
	call    *call
	answer  answer
	id      string
	created int64
	model   string
	usage   bool // at the end of a stream
	fault   fault
}

// generate reads a request, runs its sequence through the engine and writes
// the answer as it comes, or breaks it in the way of a fault.
func (s *server) generate(w http.ResponseWriter, r *http.Request, f *format, rules []*rule) error {
	s.arrive()
	defer s.depart()
	var raw []byte
	var b body
	var unread, unparsed error
	read := func() {
		// To EOF, so that net/http watches the connection and the context ends
		// when an HTTP/1 client leaves.
		if raw, unread = io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody)); unread == nil {
			unparsed = json.Unmarshal(raw, &b)
		}
	}
	// A server that refuses connections reads nothing, if it can be told before.
	late := !looksAtText(rules)
	if !late {
		read()
	}
	fault, badFault := s.choose(rules, r, b.lastText())
	if fault.kind == faultRefuse {
		sever(w, false)
		return nil
	}
	if late {
		read()
	}
	switch tooLarge := new(http.MaxBytesError); {
	case errors.As(unread, &tooLarge):
		w.Header().Set("Connection", "close")
		return fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d bytes", maxBody))
	case unread != nil && r.Context().Err() != nil:
		return s.gone()
	case unread != nil:
		w.Header().Set("Connection", "close")
		return fail(w, http.StatusBadRequest, "request body could not be read")
	case badFault != nil:
		return fail(w, http.StatusBadRequest, "header "+faultHeader+": "+badFault.Error())
	}
	if struck, err := strikeEarly(w, r, fault, b.Stream); struck {
		if r.Context().Err() != nil {
			return s.gone()
		}
		return err
	}
	if unparsed != nil {
		return fail(w, http.StatusBadRequest, "request body is not valid: "+unparsed.Error())
	}
	g, blocks, output, err := s.plan(&b, f)
	if err != nil {
		return fail(w, statusOf(err), err.Error())
	}
	g.fault = fault
	return s.run(w, r, g, engine.Request{Blocks: blocks, Input: g.call.input, Output: output}, b.Stream)
}

// unknownModel is the name of a model that is not served.
type unknownModel string

func (m unknownModel) Error() string { return fmt.Sprintf("The model `%s` does not exist.", string(m)) }

func statusOf(err error) int {
	if errors.As(err, new(unknownModel)) {
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// plan decides what the answer will be, or says what is wrong with the request.
func (s *server) plan(b *body, f *format) (g *generation, blocks []uint64, output int, err error) {
	if b.Model != nil && *b.Model != s.options.model {
		return nil, nil, 0, unknownModel(*b.Model)
	}
	text, err := f.prompt(b)
	if err != nil {
		return nil, nil, 0, err
	}
	if b.N != nil && *b.N != 1 {
		return nil, nil, 0, errors.New("the simulator gives one choice per request: n must be 1")
	}
	output, reason, err := s.length(b, len(text)/bytesPerToken)
	if err != nil {
		return nil, nil, 0, err
	}
	g = &generation{
		format:  f,
		answer:  newAnswer(s.options.name, xxhash.Sum64(text)),
		id:      fmt.Sprintf("%s-%016x%016x", f.prefix, rand.Uint64(), rand.Uint64()),
		created: time.Now().Unix(),
		model:   s.options.model,
		usage:   b.StreamOptions != nil && b.StreamOptions.IncludeUsage,
		call:    &call{input: len(text) / bytesPerToken, reason: reason},
	}
	// With the answer's own blocks named, the next turn of the conversation
	// finds them in the cache.
	blocks = blockIDs(append(text, g.answer.text(output)...), s.engine.BlockSize, b.CacheSalt)
	return g, blocks, output, nil
}

// run gives the sequence to the engine and writes its answer.
func (s *server) run(w http.ResponseWriter, r *http.Request, g *generation, req engine.Request, stream bool) error {
	var ev *events
	if g.fault.kind == faultSlowFirstToken {
		if stream {
			ev = openStream(w)
		}
		if !pause(r.Context(), g.fault.wait) {
			return s.gone()
		}
	}
	if err := s.submit(r.Context(), g.call, req); err != nil {
		switch {
		case r.Context().Err() != nil:
			return s.gone()
		case ev != nil:
			ev.fail(http.StatusBadRequest, err.Error())
			return nil
		}
		return fail(w, http.StatusBadRequest, err.Error())
	}
	defer s.abandon(g.call)
	if !stream {
		return s.whole(w, r, g)
	}
	if ev == nil {
		ev = openStream(w)
	}
	return s.stream(w, r, g, ev)
}

// length decides how many tokens the answer has and why it ends there.
func (s *server) length(b *body, input int) (output int, reason string, err error) {
	output, reason = s.options.replyTokens, reasonStop
	limit := b.MaxCompletionTokens
	if limit == nil {
		limit = b.MaxTokens
	}
	if limit != nil {
		output, reason = *limit, reasonLength
	}
	if output < 1 {
		return 0, "", fmt.Errorf("max_tokens must be at least 1, got %d", output)
	}
	if most := s.contextLength(); input > most || output > most-input {
		return 0, "", fmt.Errorf("the maximum context length is %d tokens; the request has %d in its prompt and asks for %d more", most, input, output)
	}
	return output, reason, nil
}
