package answer

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// The chunks of a small chat.
const (
	role    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	hello   = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`
	stop    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	counted = `{"id":"c-1","choices":[],"usage":{"prompt_tokens":412,"total_tokens":430,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":352}}}`
)

func chunk(delta string) string {
	return `{"choices":[{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// beside is a chunk with a tool call beside the content.
func beside(content string) string {
	return chunk(`{"content":` + content + `,"tool_calls":[{"index":0}]}`)
}

// The time to first token is what people judge a server by, so it must be that
// of the first thing the model said.
func TestFirstTokenIsTheFirstGeneratedThing(t *testing.T) {
	big := strings.Repeat("x", 200_000)
	for _, test := range []struct {
		name   string
		stream string
		want   bool
	}{
		{"nothing", "", false},
		{"a comment", ": keep-alive\n\n", false},
		{"a role", sse(role), false},
		{"a role with null content", sse(chunk(`{"role":"assistant","content":null}`)), false},
		{"usage alone", sse(counted), false},
		{"prompt progress", sse(`{"choices":[],"prompt_progress":{"total":9,"processed":3}}`), false},
		{"log probabilities beside an empty delta", sse(`{"choices":[{"delta":{"content":""},"logprobs":{"content":[{"token":"a"}]}}]}`), false},
		{"no tool calls", sse(chunk(`{"tool_calls":[]}`)), false},
		{"no audio", sse(chunk(`{"audio":{}}`)), false},
		{"an error", sse(`{"error":{"message":"content","text":"x"}}`), false},
		{"content of another object", sse(`{"meta":{"content":"x","text":"y"},"content":"z","delta":{"content":"q"}}`), false},
		{"a key that only begins like one", sse(chunk(`{"content_type":"x","` + strings.Repeat("content", 20) + `":"x"}`)), false},
		{"the name inside text", sse(`{"choices":[{"delta":{"role":"\"content\":\"x\""}}]}`), false},
		{"the end", "data: [DONE]\n\n", false},

		{"content", sse(hello), true},
		{"content after an empty one", sse(chunk(`{"content":""}`), chunk(`{"content":"x"}`)), true},
		{"content after a role", sse(role, hello), true},
		{"content that is one escape", sse(chunk(`{"content":"\n"}`)), true},
		{"content in parts", sse(chunk(`{"content":[{"type":"text","text":"x"}]}`)), true},
		{"reasoning", sse(chunk(`{"reasoning":"hm"}`)), true},
		{"reasoning_content", sse(chunk(`{"content":null,"reasoning_content":"hm"}`)), true},
		{"a refusal", sse(chunk(`{"refusal":"no"}`)), true},
		{"a tool call", sse(chunk(`{"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]}`)), true},
		{"a function call", sse(chunk(`{"function_call":{"name":"f"}}`)), true},
		{"audio", sse(chunk(`{"audio":{"data":"AAAA"}}`)), true},
		{"completions text", sse(`{"choices":[{"index":0,"text":"x","finish_reason":null}]}`), true},
		{"no completions text", sse(`{"choices":[{"index":0,"text":"","finish_reason":null}]}`), false},
		{"the second choice", sse(`{"choices":[{"delta":{"content":""}},{"delta":{"content":"x"}}]}`), true},
		{"spaces as Python writes them", sse(`{"choices": [{"index": 0, "delta": {"content": "x"}}]}`), true},
		{"no space after the colon", "data:" + hello + "\n\n", true},
		{"CRLF", "data: " + role + "\r\n\r\ndata: " + hello + "\r\n\r\n", true},
		{"CR", "data: " + role + "\r\rdata: " + hello + "\r\r", true},
		{"no end of line", "data: " + hello, true},
		{"an event name before it", "event: message\nid: 7\ndata: " + hello + "\n\n", true},
		{"many lines before it", "id: 1\nid: 2\nid: 3\nid: 4\nid: 5\nid: 6\ndata: " + hello + "\n\n", true},
		{"two data lines", "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"x\"}}]}\n\n", true},
		{"after an event of 200 KB", sse(`{"x":"`+big+`"}`, hello), true},
		{"at the end of an event of 200 KB", sse(`{"x":"` + big + `","choices":[{"delta":{"content":"x"}}]}`), true},
		{"after broken JSON", "data: {\"bro\n\n" + sse(hello), true},
		{"after deep nesting", sse(`{"x":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"choices":[{"delta":{"content":"x"}}]}`), true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := read(t, request.Chat, typeEvents, test.stream).Tokens > 0; got != test.want {
				t.Errorf("token seen: %v, want %v", got, test.want)
			}
		})
	}
}

// The time between tokens is counted in events with a token, also where most are
// passed over as like the one before.
func TestEventsWithATokenAreCounted(t *testing.T) {
	empty := strings.Replace(hello, "Hello", "", 1)
	for _, test := range []struct {
		name, stream string
		want         int
	}{
		{"none", ": ping\n\n" + sse(role, stop, counted, "[DONE]"), 0},
		{"one", sse(role, hello, stop, counted, "[DONE]"), 1},
		{"many alike", sse(hello, hello, hello, hello), 4},
		{"empty ones between", sse(hello, hello, empty, hello, empty, empty), 3},
		{"empty ones before", sse(empty, empty, hello, empty, hello), 2},
		{"an escape between", sse(hello, hello, chunk(`{"content":"\n"}`), hello), 4},
		{"a comment and usage between", sse(hello, counted) + ": ping\n\n" + sse(hello, counted), 2},
		{"a change to tool calls", sse(hello, hello, beside("null"), beside("null"), beside(`""`), beside(`""`), beside(`""`), hello), 8},
		{"two choices in an event", sse(`{"choices":[{"text":"a"},{"text":"b"}]}`, `{"choices":[{"text":""},{"text":""}]}`, `{"choices":[{"text":""},{"text":"b"}]}`), 2},
		{"two strings in an event", sse(chunk(`{"content":"a","reasoning":"b"}`)), 1},
		{"reasoning, then content", sse(chunk(`{"reasoning_content":"a"}`), chunk(`{"reasoning_content":"b"}`), hello, hello), 4},
		{"completions", sse(`{"choices":[{"text":"a"}]}`, `{"choices":[{"text":"b"}]}`, `{"choices":[{"text":""}]}`, `{"choices":[{"text":"c"}]}`), 3},
		{"obfuscated", sse(`{"choices":[{"text":"a"}],"obfuscation":"xyz"}`, `{"choices":[{"text":"bb"}],"obfuscation":"k"}`), 2},
		{"CRLF", strings.ReplaceAll(sse(role, hello, empty, hello, counted), "\n", "\r\n"), 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := read(t, request.Chat, typeEvents, test.stream).Tokens; got != test.want {
				t.Errorf("%d, want %d", got, test.want)
			}
		})
	}
}

// Usage is where cache hits show. Engines put it in many places.
func TestUsageIsFoundWhereverEnginesPutIt(t *testing.T) {
	for _, test := range []struct {
		name, data string
		want       Facts
	}{
		{"none", hello, told()},
		{"null", `{"choices":[],"usage":null}`, told()},
		{"its own chunk", counted, told(412, 352, 18)},
		{"details null", `{"usage":{"prompt_tokens":5,"completion_tokens":2,"prompt_tokens_details":null}}`, told(5, llmlb.Unknown, 2)},
		{"DeepSeek", `{"usage":{"prompt_tokens":5,"prompt_cache_hit_tokens":4,"completion_tokens":2}}`, told(5, 4, 2)},
		{"llama.cpp", `{"choices":[],"timings":{"cache_n":300,"prompt_n":12,"predicted_n":7}}`, told(llmlb.Unknown, 300)},
		{"inside a choice", `{"choices":[{"delta":{},"usage":{"prompt_tokens":9}}]}`, told(9)},
		{"not a count", `{"usage":{"prompt_tokens":-1,"completion_tokens":"7"}}`, told()},
		{"a fraction", `{"usage":{"prompt_tokens":12.75,"completion_tokens":2}}`, told(12, llmlb.Unknown, 2)},
		{"absurd", `{"usage":{"prompt_tokens":99999999999999999999999999}}`, told(maxNumber)},
		{"of somebody else", `{"meta":{"usage":{"prompt_tokens":9}}}`, told()},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := read(t, request.Chat, typeEvents, sse(role, test.data, "[DONE]"))
			if got.Tokens, got.Done = 0, false; got != test.want {
				t.Errorf("in a stream: %+v, want %+v", got, test.want)
			}
			got = read(t, request.Chat, typeWhole, test.data)
			if !got.Finished {
				t.Error("the whole answer is not finished")
			}
			if got.Tokens, got.Finished = 0, false; got != test.want {
				t.Errorf("in a whole answer: %+v, want %+v", got, test.want)
			}
		})
	}
	running := func(n string) string {
		return `{"choices":[{"text":"x"}],"usage":{"prompt_tokens":5,"completion_tokens":` + n + `}}`
	}
	check(t, []reading{
		{"in every chunk, the last counts", request.Completions, sse(running("1"), running("1"), running("2"), running("1")), told(5, llmlb.Unknown, 1).with(4, false)},
	})
}

func TestOpenAIAnswers(t *testing.T) {
	message := func(m string) string {
		return `{"object":"chat.completion","choices":[{"index":0,"message":` + m + `,"finish_reason":"stop"}],"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	}
	check(t, []reading{
		{"a whole chat", request.Chat, message(`{"role":"assistant","content":"Hi"}`), told(3, llmlb.Unknown, 1).with(1, true)},
		{"a whole chat that calls a tool", request.Chat, message(`{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]}`), told(3, llmlb.Unknown, 1).with(1, true)},
		{"a whole chat that says nothing", request.Chat, message(`{"role":"assistant","content":""}`), told(3, llmlb.Unknown, 1).with(0, true)},
		{"a whole chat, cut", request.Chat, strings.TrimSuffix(message(`{"content":"Hi"}`), "}"), told(3, llmlb.Unknown, 1).with(1, false)},
		{"a whole completion with line ends", request.Completions, "{\n \"choices\": [\n  {\"text\": \"Hi\", \"finish_reason\": \"length\"}\n ]\n}\n", told().with(1, true)},
		{"a whole error", request.Chat, `{"error":{"message":"boom","type":"server_error","code":null}}`, told().with(0, true).failed(500, false)},
		{"a stream whose last event has no blank line", request.Chat, sse(role, hello) + "data: " + counted, told(412, 352, 18).with(1, false)},
		{"a reason that is an object", request.Chat, sse(`{"choices":[{"finish_reason":{"type":"stop"}}]}`), told().with(0, true)},
	})
}

// A stream is whole when it said so in any of the ways engines do.
func TestHowAStreamEnds(t *testing.T) {
	for _, test := range []struct {
		name, stream  string
		whole, failed bool
	}{
		{"properly", sse(role, hello, stop, "[DONE]"), true, false},
		{"with a reason alone", sse(role, hello, stop), true, false},
		{"with the marker alone", sse(hello, "[DONE]"), true, false},
		{"with the marker unterminated", sse(hello) + "data:[DONE]", true, false},
		{"with usage after the marker", sse(hello, "[DONE]", counted), true, false},
		{"with a broken event in the middle", sse(hello) + "data: {\"bro\n\n" + sse(hello, stop), true, false},
		{"cut", sse(role, hello, hello), false, false},
		{"before it began", "", false, false},
		{"with the marker as text", sse(role, hello, chunk(`{"content":"[DONE]"}`)), false, false},
		{"with an error", sse(hello, `{"error":{"message":"boom","code":500}}`, "[DONE]"), true, true},
		{"without an error", sse(hello, `{"error":null,"choices":[{"finish_reason":"stop"}]}`), true, false},
		{"with an error that is no text", sse(hello, `{"error":"","choices":[{"finish_reason":"stop"}]}`), true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := read(t, request.Chat, typeEvents, test.stream)
			if got.Whole() != test.whole || got.Failed != test.failed {
				t.Errorf("whole %v, failed %v; want %v, %v", got.Whole(), got.Failed, test.whole, test.failed)
			}
		})
	}
}
