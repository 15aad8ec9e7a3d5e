package answer

import (
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Reader reads an answer along. Its bytes may come in pieces cut anywhere: what
// it notes depends on the bytes alone. It neither keeps nor changes them.
type Reader interface {
	// Observe takes in the next piece.
	Observe(b []byte)

	// Facts is what all pieces so far have told. It is the same value each time,
	// and changes with the next Observe.
	Facts() *Facts

	// Stream reports whether the answer comes in events, rather than whole.
	Stream() bool
}

// The media types of answers.
const (
	typeEvents = "text/event-stream"
	typeLines  = "application/x-ndjson"
	typeWhole  = "application/json"
)

// New returns a reader for an answer of the API (one of package request's
// constants) with the given Content-Type header, nil when it is not one that we
// read: what that is made of passes, and is whole when it ends. So are streams
// without a mark of their end that every engine sets.
func New(api, contentType string) Reader {
	under := grammarOf(api)
	if under == nil {
		return nil
	}
	kind := MediaType(contentType)
	switch {
	case kind == typeWhole:
		return newWhole(under)
	case kind != ContentType(api) || !marksEnd(api):
		return nil
	case kind == typeLines:
		return newLines(under)
	}
	return newEvents(under)
}

// MediaType returns the type that a Content-Type header names, in small letters and
// without parameters.
func MediaType(contentType string) string {
	kind, _, _ := strings.Cut(contentType, ";")
	return strings.ToLower(strings.TrimSpace(kind))
}

// marksEnd reports whether a stream of the API that ends without its mark has
// been cut. Of sound and pictures each engine streams what it likes.
func marksEnd(api string) bool { return api != request.Transcription && api != request.Image }

func grammarOf(api string) grammar {
	switch api {
	case request.Chat, request.Completions:
		return openAI
	case request.Responses:
		return responses
	case request.Messages:
		return anthropic
	case request.OllamaChat, request.OllamaGenerate:
		return ollama
	case request.Generate, request.GenerateStream, request.Root:
		return generate
	case request.Completion:
		return llamaCPP
	case request.Embeddings, request.Pooling, request.Classify, request.Rerank, request.Score:
		return encoded
	case request.Transcription, request.Image:
		return media
	}
	return nil
}
