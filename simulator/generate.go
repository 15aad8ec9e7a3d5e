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

func (s *server) chat(w http.ResponseWriter, r *http.Request) error {
	return s.generate(w, r, (*body).chatPrompt, chatFormat)
}

func (s *server) completions(w http.ResponseWriter, r *http.Request) error {
	return s.generate(w, r, (*body).completionPrompt, textFormat)
}

// generation is one answer in the making.
type generation struct {
	format  format
	call    *call
	answer  answer
	id      string
	created int64
	model   string
	usage   bool // at the end of a stream
}

// generate reads a request, runs its sequence through the engine and writes
// the answer as it comes.
func (s *server) generate(w http.ResponseWriter, r *http.Request, prompt func(*body) ([]byte, error), f format) error {
	// To EOF, so that net/http watches the connection and the context ends
	// when an HTTP/1 client leaves.
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		w.Header().Set("Connection", "close")
		if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
			return fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("request body is larger than %d bytes", maxBody))
		}
		return fail(w, http.StatusBadRequest, "request body could not be read")
	}
	var b body
	if err := json.Unmarshal(raw, &b); err != nil {
		return fail(w, http.StatusBadRequest, "request body is not valid: "+err.Error())
	}
	if b.Model != nil && *b.Model != s.options.model {
		return fail(w, http.StatusNotFound, fmt.Sprintf("The model `%s` does not exist.", *b.Model))
	}
	text, err := prompt(&b)
	if err != nil {
		return fail(w, http.StatusBadRequest, err.Error())
	}
	if b.N != nil && *b.N != 1 {
		return fail(w, http.StatusBadRequest, "the simulator gives one choice per request: n must be 1")
	}
	output, reason, err := s.length(&b, len(text)/bytesPerToken)
	if err != nil {
		return fail(w, http.StatusBadRequest, err.Error())
	}

	g := &generation{
		format:  f,
		answer:  newAnswer(s.options.name, xxhash.Sum64(text)),
		id:      fmt.Sprintf("%s-%016x%016x", f.prefix, rand.Uint64(), rand.Uint64()),
		created: time.Now().Unix(),
		model:   s.options.model,
		usage:   b.StreamOptions != nil && b.StreamOptions.IncludeUsage,
	}
	g.call = &call{input: len(text) / bytesPerToken, reason: reason}
	// With the answer's own blocks named, the next turn of the conversation
	// finds them in the cache.
	blocks := blockIDs(append(text, g.answer.text(output)...), s.options.engine.BlockSize, b.CacheSalt)
	err = s.submit(r.Context(), g.call, engine.Request{Blocks: blocks, Input: g.call.input, Output: output})
	if err != nil {
		if r.Context().Err() != nil {
			return nil // nobody is there to answer
		}
		return fail(w, http.StatusBadRequest, err.Error())
	}
	defer s.abandon(g.call)
	if b.Stream {
		return s.stream(w, r, g)
	}
	return s.whole(w, r, g)
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
