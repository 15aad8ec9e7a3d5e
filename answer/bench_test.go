package answer

import (
	"fmt"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Chunks of the size that engines write.
const vllmChunk = `{"id":"chatcmpl-0a1b2c3d4e5f60718293a4b5c6d7e8f9","object":"chat.completion.chunk","created":1764400000,"model":"meta-llama/Llama-3.1-8B-Instruct","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]}`

// started is a reader after the first token, as nearly all events find one.
func started(event string) (*events, []byte) {
	o := newEvents(openAI)
	o.Observe([]byte(sse(role, hello)))
	return o, []byte(sse(event))
}

// long makes a stream of 1,000 events that differ as real ones do.
func long(event func(i int) string) []byte {
	var b strings.Builder
	for i := range 1000 {
		b.WriteString(event(i))
	}
	return []byte(b.String())
}

var words = []string{" the", " a", "n", " engine", " speaks", ",", " and", " says"}

// A stream must not cost memory per token.
func TestObservingAllocatesNothing(t *testing.T) {
	o, event := started(vllmChunk)
	if n := testing.AllocsPerRun(100, func() { o.Observe(event) }); n != 0 {
		t.Errorf("%v allocations per event, want none", n)
	}
	_, usage := started(counted)
	half := len(usage) / 2
	if n := testing.AllocsPerRun(100, func() { o.Observe(usage[:half]); o.Observe(usage[half:]) }); n != 0 {
		t.Errorf("%v allocations per cut event with usage, want none", n)
	}
	for _, s := range longStreams {
		r := New(s.api, s.contentType)
		if n := testing.AllocsPerRun(10, func() { r.Observe(s.bytes) }); n != 0 {
			t.Errorf("%s: %v allocations per stream, want none", s.name, n)
		}
	}
}

var longStreams = []struct {
	name, api, contentType string
	bytes                  []byte
}{
	{"chat", request.Chat, typeEvents, long(func(i int) string {
		return sse(strings.Replace(vllmChunk, " token", words[i%len(words)], 1))
	})},
	{"anthropic", request.Messages, typeEvents, long(func(i int) string {
		return "event: content_block_delta\n" + sse(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"%s"}}`, words[i%len(words)]))
	})},
	{"responses", request.Responses, typeEvents, long(func(i int) string {
		return "event: response.output_text.delta\n" + sse(fmt.Sprintf(`{"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_0123456789abcdef","output_index":0,"content_index":0,"delta":"%s","logprobs":[]}`, i, words[i%len(words)]))
	})},
	{"ollama", request.OllamaChat, typeLines, long(func(i int) string {
		return fmt.Sprintf(`{"model":"llama3.1:8b","created_at":"2026-11-29T12:00:%02d.%06dZ","message":{"role":"assistant","content":"%s"},"done":false}`+"\n", i%60, i*997, words[i%len(words)])
	})},
	{"tgi", request.GenerateStream, typeEvents, long(func(i int) string {
		return sse(fmt.Sprintf(`{"index":%d,"token":{"id":%d,"text":"%s","logprob":-%d.5,"special":false},"generated_text":null,"details":null}`, i, i*7, words[i%len(words)], i%9))
	})},
	{"llama.cpp", request.Completion, typeEvents, long(func(i int) string {
		return sse(fmt.Sprintf(`{"index":0,"content":"%s","tokens":[%d],"stop":false,"id_slot":0,"tokens_predicted":%d,"tokens_evaluated":12}`, words[i%len(words)], i*7, i))
	})},
}

// In the dialects whose events differ in little else, the second event of a kind
// is passed over by comparing, or a long answer costs ten times as much.
func TestEventsAreLearnt(t *testing.T) {
	for _, s := range longStreams {
		r := New(s.api, s.contentType)
		r.Observe(s.bytes[:len(s.bytes)/2])
		var p *pattern
		switch r := r.(type) {
		case *events:
			p = &r.pattern
		case *lines:
			p = &r.pattern
		}
		end := "}\n\n"
		if !request.StreamsSSE(s.api) {
			end = "}\n"
		}
		_, rest, _ := strings.Cut(string(s.bytes[len(s.bytes)/2:]), end)
		n, _ := p.skip([]byte(rest))
		if learnt := n > 0; learnt != (s.api != request.Completion) { // its counts change
			t.Errorf("%s: passed over %v", s.name, learnt)
		}
	}
}

func BenchmarkEvent(b *testing.B) {
	for _, bench := range []struct{ name, event string }{
		{"content", vllmChunk},
		{"usage-null", strings.TrimSuffix(vllmChunk, "}") + `,"usage":null}`},
		{"usage", counted},
	} {
		b.Run(bench.name, func(b *testing.B) {
			o, event := started(bench.event)
			b.SetBytes(int64(len(event)))
			b.ReportAllocs()
			for b.Loop() {
				o.Observe(event)
			}
		})
	}
	b.Run("cut", func(b *testing.B) {
		o, event := started(vllmChunk)
		b.SetBytes(int64(len(event)))
		b.ReportAllocs()
		for b.Loop() {
			o.Observe(event[:100])
			o.Observe(event[100:])
		}
	})
}

// A stream of 1,000 events, in pieces of the size that a proxy reads.
func BenchmarkStream(b *testing.B) {
	for _, s := range longStreams {
		b.Run(s.name, func(b *testing.B) {
			b.SetBytes(int64(len(s.bytes)))
			b.ReportAllocs()
			for b.Loop() {
				r := New(s.api, s.contentType)
				for i := 0; i < len(s.bytes); i += 4096 {
					r.Observe(s.bytes[i:min(i+4096, len(s.bytes))])
				}
			}
		})
	}
}

func BenchmarkWhole(b *testing.B) {
	whole := []byte(`{"choices":[{"message":{"role":"assistant","content":"` + strings.Repeat(`a line of text\n`, 2000) + `"}}],"usage":{"prompt_tokens":5}}`)
	b.SetBytes(int64(len(whole)))
	b.ReportAllocs()
	for b.Loop() {
		newWhole(openAI).Observe(whole)
	}
}

// Embeddings are the longest whole answers, and nothing but numbers.
func BenchmarkWholeEmbeddings(b *testing.B) {
	list := strings.TrimSuffix(strings.Repeat("-0.012345678,", 1536), ",")
	answer := []byte(`{"data":[` + strings.TrimSuffix(strings.Repeat(`{"embedding":[`+list+`]},`, 32), ",") + `],"usage":{"prompt_tokens":5}}`)
	b.SetBytes(int64(len(answer)))
	b.ReportAllocs()
	for b.Loop() {
		r := newWhole(encoded)
		if r.Observe(answer); r.Facts().Prompt != 5 {
			b.Fatal(*r.Facts())
		}
	}
}

func BenchmarkUsageFilter(b *testing.B) {
	stream := longStreams[0].bytes
	dst := make([]byte, 0, len(stream))
	b.SetBytes(int64(len(stream)))
	b.ReportAllocs()
	for b.Loop() {
		var f UsageFilter
		dst = dst[:0]
		for i := 0; i < len(stream); i += 4096 {
			dst = f.Filter(dst, stream[i:min(i+4096, len(stream))])
		}
	}
}
