package answer

import (
	"bytes"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// sse makes a stream of events with the data given.
func sse(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}

// named makes a stream of events that have names: their types.
func named(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		_, rest, _ := strings.Cut(d, `"type":"`)
		name, _, _ := strings.Cut(rest, `"`)
		b.WriteString("event: " + name + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

func ndjson(values ...string) string { return strings.Join(values, "\n") + "\n" }

// read returns what is noted of an answer, after it has seen to it that it does
// not matter how the answer is cut.
func read(t *testing.T, api, contentType, answer string) Facts {
	t.Helper()
	whole := New(api, contentType)
	if whole == nil {
		t.Fatalf("no reader for %s as %s", api, contentType)
	}
	b := []byte(answer)
	whole.Observe(b)
	want := *whole.Facts()
	bytewise := New(api, contentType)
	for i := range b {
		bytewise.Observe(b[i : i+1])
	}
	if got := *bytewise.Facts(); got != want {
		t.Errorf("byte by byte %+v, at once %+v", got, want)
	}
	if len(b) < 20_000 {
		for i := range b {
			r := New(api, contentType)
			r.Observe(b[:i])
			r.Observe(b[i:])
			if got := *r.Facts(); got != want {
				t.Fatalf("cut at %d %+v, at once %+v", i, got, want)
			}
		}
	}
	if !bytes.Equal(b, []byte(answer)) {
		t.Error("the reader changed the bytes")
	}
	return want
}

// told is facts with nothing in them but usage: prompt, cached, output.
func told(usage ...int) Facts {
	f := Facts{Prompt: llmlb.Unknown, Cached: llmlb.Unknown, Output: llmlb.Unknown}
	for i, n := range usage {
		*[]*int{&f.Prompt, &f.Cached, &f.Output}[i] = n
	}
	return f
}

func (f Facts) with(tokens int, finished bool) Facts {
	f.Tokens, f.Finished = tokens, finished
	return f
}

func (f Facts) done() Facts {
	f.Done = true
	return f
}

func (f Facts) failed(status int, overloaded bool) Facts {
	f.Failed, f.Status, f.Overloaded = true, status, overloaded
	return f
}

// reading is an answer and what must be noted of it.
type reading struct {
	name, api, answer string
	want              Facts
}

func (r *reading) contentType() string {
	switch {
	case strings.HasPrefix(r.answer, "{") && !request.StreamsSSE(r.api) && strings.HasSuffix(r.answer, "\n"):
		return typeLines
	case strings.HasPrefix(r.answer, "{"), strings.HasPrefix(r.answer, "["):
		return typeWhole
	}
	return typeEvents + "; charset=utf-8"
}

func check(t *testing.T, readings []reading) {
	t.Helper()
	for _, r := range readings {
		t.Run(r.name, func(t *testing.T) {
			t.Helper()
			if got := read(t, r.api, r.contentType(), r.answer); got != r.want {
				t.Errorf("got  %+v\nwant %+v", got, r.want)
			}
		})
	}
}

// Answers in other dialects, or encodings of them, are not read.
func TestWhatIsRead(t *testing.T) {
	for _, test := range []struct {
		api, contentType string
		read, stream     bool
	}{
		{request.Chat, "text/event-stream", true, true},
		{request.Chat, "Text/Event-Stream; charset=utf-8", true, true},
		{request.Chat, "application/json", true, false},
		{request.Chat, "application/x-ndjson", false, false},
		{request.Chat, "text/html", false, false},
		{request.Chat, "", false, false},
		{"", "text/event-stream", false, false},
		{"audio", "application/json", false, false},
		{request.Embeddings, "application/json", true, false},
		{request.Rerank, "application/json; charset=utf-8", true, false},
		{request.Embeddings, "text/event-stream", false, false},
		{request.Embeddings, "application/x-ndjson", false, false},
		{request.Embeddings, "application/octet-stream", false, false},
		{request.Transcription, "application/json", true, false},
		{request.Transcription, "text/plain; charset=utf-8", false, false},
		{request.Transcription, "text/event-stream", false, false},
		{request.Image, "application/json", true, false},
		{request.Image, "text/event-stream", false, false},
		{request.OllamaChat, "application/x-ndjson", true, true},
		{request.OllamaGenerate, "application/json; charset=utf-8", true, false},
		{request.OllamaChat, "text/event-stream", false, false},
		{request.Completions, "text/event-stream", true, true},
		{request.Responses, "text/event-stream", true, true},
		{request.Messages, "text/event-stream", true, true},
		{request.Generate, "text/event-stream", true, true},
		{request.GenerateStream, "text/event-stream", true, true},
		{request.Root, "text/event-stream", true, true},
		{request.Completion, "text/event-stream", true, true},
	} {
		r := New(test.api, test.contentType)
		if (r != nil) != test.read || r != nil && r.Stream() != test.stream {
			t.Errorf("%s as %q: read %v, want %v and stream %v", test.api, test.contentType, r != nil, test.read, test.stream)
		}
	}
}
