package answer

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

const unknown = llmlb.Unknown

// Ollama's two APIs of its own, in lines.
func TestOllama(t *testing.T) {
	line := func(message, rest string) string {
		return `{"model":"m","created_at":"2026-11-29T12:00:00.123456Z","message":{"role":"assistant",` + message + `},"done":` + rest + `}`
	}
	later := func(s string) string { return strings.Replace(s, "123456", "98", 1) }
	gen := func(response, rest string) string {
		return `{"model":"m","created_at":"2026-11-29T12:00:00Z","response":"` + response + `","done":` + rest + `}`
	}
	const end = `true,"done_reason":"stop","total_duration":5,"prompt_eval_count":26,"prompt_eval_duration":1,"eval_count":3,"eval_duration":1`
	say := line(`"content":"Hi"`, `false`)
	check(t, []reading{
		{"chat", request.OllamaChat, ndjson(say, later(say), say, line(`"content":""`, end)), told(26, unknown, 3).with(3, true)},
		{"chat that ends with text", request.OllamaChat, ndjson(say, line(`"content":"!"`, end)), told(26, unknown, 3).with(2, true)},
		{"thinking", request.OllamaChat, ndjson(line(`"content":"","thinking":"hm"`, `false`), line(`"content":"","thinking":"so"`, `false`), say), told().with(3, false)},
		{"an empty line first", request.OllamaChat, ndjson(line(`"content":""`, `false`), "", later(line(`"content":""`, `false`)), say), told().with(1, false)},
		{"a tool call", request.OllamaChat, ndjson(line(`"content":"","tool_calls":[{"function":{"name":"f","arguments":{}}}]`, `false`)), told().with(1, false)},
		{"generate", request.OllamaGenerate, ndjson(gen("Hi", `false`), gen(" you", `false`), gen("", end)), told(26, unknown, 3).with(2, true)},
		{"generate, thinking", request.OllamaGenerate, ndjson(`{"response":"","thinking":"hm","done":false}`), told().with(1, false)},
		{"no prompt count", request.OllamaGenerate, ndjson(gen("Hi", `false`), gen("", `true,"eval_count":1`)), told(unknown, unknown, 1).with(1, true)},
		{"cut in the last line", request.OllamaChat, ndjson(say) + strings.TrimSuffix(line(`"content":""`, end), end+"}") + "\n", told().with(1, false)},
		{"the last line without its end", request.OllamaChat, ndjson(say) + line(`"content":""`, end) + " \n", told(26, unknown, 3).with(1, true)},
		{"done as text", request.OllamaChat, ndjson(line(`"content":"\"done\":true"`, `false`)), told().with(1, false)},
		{"a broken line", request.OllamaChat, ndjson(say, `{"message":{"content":"bro`, say, line(`"content":""`, end)), told(26, unknown, 3).with(3, true)},
		{"an error", request.OllamaChat, ndjson(say, `{"error":"an unexpected error was encountered"}`), told().with(1, false).failed(500, false)},
		{"busy", request.OllamaChat, ndjson(`{"error":"server busy, please try again.  maximum pending requests exceeded"}`), told().failed(503, true)},
		{"whole", request.OllamaChat, line(`"content":"Hi"`, end), told(26, unknown, 3).with(1, true)},
		{"whole, generate", request.OllamaGenerate, gen("Hi", end), told(26, unknown, 3).with(1, true)},
		{"whole, cut", request.OllamaGenerate, strings.TrimSuffix(gen("Hi", end), "}"), told(26, unknown, 3).with(1, false)},
	})
	// Without its line end, the last line is the answer's all the same.
	r := New(request.OllamaChat, typeLines)
	r.Observe([]byte(say + "\n" + line(`"content":""`, end)))
	if f := r.Facts(); !f.Whole() || f.Output != 3 {
		t.Errorf("without its line end: %+v", *f)
	}
}

// TGI, at /generate_stream, /generate and /.
func TestTGI(t *testing.T) {
	token := func(text, rest string) string {
		return `{"index":1,"token":{"id":92,"text":"` + text + `","logprob":-0.25,"special":false},` + rest + `}`
	}
	const on = `"generated_text":null,"details":null`
	other := strings.NewReplacer("92", "7113", "-0.25", "-1.5e-05", `"index":1`, `"index":22`)
	const end = `"generated_text":"Hi you","details":{"finish_reason":"eos_token","generated_tokens":3,"seed":null,"input_length":11}`
	bare := strings.ReplaceAll(sse(token("Hi", on), other.Replace(token(" you", on)), token("</s>", end)), "data: ", "data:")
	check(t, []reading{
		{"a stream", request.GenerateStream, bare, told(11, unknown, 3).with(3, true)},
		{"a stream at /", request.Root, bare, told(11, unknown, 3).with(3, true)},
		{"an old stream", request.GenerateStream, sse(token("Hi", on), token("</s>", `"generated_text":"","details":null`)), told().with(2, true)},
		{"cut", request.GenerateStream, sse(token("Hi", on), token(" you", on)), told().with(2, false)},
		{"a keep-alive", request.GenerateStream, ":\n\n" + sse(token("Hi", on)), told().with(1, false)},
		{"overload", request.GenerateStream, sse(`{"error":"Model is overloaded","error_type":"overloaded"}`), told().failed(429, true)},
		{"validation", request.GenerateStream, sse(`{"error":"Input validation error: inputs must have less than 5 tokens","error_type":"validation"}`), told().failed(422, false)},
		{"a client that says overloaded", request.GenerateStream, sse(`{"error_type":"validation","error":"bad value \"overloaded\""}`), told().failed(422, false)},
		{"a failure", request.GenerateStream, sse(token("Hi", on), `{"error":"Request failed during generation: Server error: out of memory","error_type":"generation"}`), told().with(1, false).failed(500, false)},
		{"an incomplete one", request.GenerateStream, sse(`{"error":"Incomplete generation","error_type":"incomplete_generation"}`), told().failed(500, false)},
		{"whole", request.Generate, `{"generated_text":"Hi","details":{"finish_reason":"length","generated_tokens":1,"prefill":[],"tokens":[{"id":1,"text":"Hi"}]}}`, told(unknown, unknown, 1).with(1, true)},
		{"whole at /", request.Root, `[{"generated_text":"Hi"}]`, told().with(1, true)},
		{"whole and empty", request.Root, `[{"generated_text":""}]`, told().with(0, true)},
		{"whole at /, cut", request.Root, `[{"generated_text":"Hi"}`, told().with(1, false)},
		{"a whole error", request.Generate, `{"error":"Model is overloaded","error_type":"overloaded"}`, told().with(0, true).failed(429, true)},
	})
}

// SGLang repeats the text so far in each event.
func TestSGLangGenerate(t *testing.T) {
	event := func(text, reason, completion string) string {
		return `{"text":"` + text + `","output_ids":[],"meta_info":{"id":"a","finish_reason":` + reason + `,"prompt_tokens":14,"completion_tokens":` + completion + `,"cached_tokens":12,"e2e_latency":0.5},"index":0}`
	}
	check(t, []reading{
		{"a stream", request.Generate, sse(event("", "null", "0"), event("Hi", "null", "1"), event("Hi you", `{"type":"length","length":2}`, "2"), "[DONE]"), told(14, 12, 2).with(2, true).done()},
		{"cut", request.Generate, sse(event("Hi", "null", "1"), event("Hi you", "null", "2")), told(14, 12, 2).with(2, false)},
		{"a reason in a word", request.Generate, sse(event("Hi", `"stop"`, "1")), told(14, 12, 1).with(1, true)},
		{"token ids alone", request.Generate, sse(`{"output_ids":[17],"meta_info":{"finish_reason":null}}`), told().with(1, false)},
		{"an error", request.Generate, sse(`{"error":{"message":"The request queue is full.","type":"SERVICE_UNAVAILABLE","code":503}}`, "[DONE]"), told().failed(503, true).done()},
		{"an error in words alone", request.Generate, sse(`{"error":{"message":"The request queue is full."}}`), told().failed(503, true)},
		{"whole", request.Generate, event("Hi", `{"type":"stop","matched":2}`, "2"), told(14, 12, 2).with(1, true)},
		{"a batch", request.Generate, "[" + event("a", `{"type":"stop"}`, "2") + "," + event("b", `{"type":"stop"}`, "3") + "]", told(14, 12, 3).with(1, true)},
	})
}

// llama.cpp's own completion.
func TestLlamaCPP(t *testing.T) {
	event := func(content, rest string) string {
		return `{"index":0,"content":"` + content + `","tokens":[5],"stop":` + rest + `}`
	}
	const on = `false,"id_slot":0,"tokens_predicted":1,"tokens_evaluated":9`
	const end = `true,"tokens_predicted":2,"tokens_evaluated":9,"tokens_cached":10,"stop_type":"limit","timings":{"cache_n":6,"prompt_n":3,"predicted_n":2}`
	check(t, []reading{
		{"a stream", request.Completion, sse(event("Hi", on), event(" you", on), event("", end)), told(9, 6, 2).with(2, true)},
		{"an old stream", request.Completion, sse(`{"content":"Hi","stop":false}`, `{"content":" you","stop":false}`, `{"content":"","stop":true,"tokens_evaluated":9,"tokens_predicted":2}`), told(9, unknown, 2).with(2, true)},
		{"progress", request.Completion, sse(event("", `false,"prompt_progress":{"total":9,"processed":5}`)), told().with(0, false)},
		{"cut", request.Completion, sse(event("Hi", on)), told(9, unknown, 1).with(1, false)},
		{"OpenAI's form on the same path", request.Completion, sse(`{"choices":[{"index":0,"text":"Hi","finish_reason":null}]}`, `{"choices":[{"index":0,"text":"","finish_reason":"stop"}]}`), told().with(1, true)},
		{"a byte order mark", request.Completion, "\xEF\xBB\xBF" + sse(event("Hi", on), event("", `true`)), told(9, unknown, 1).with(1, true)},
		{"an old error", request.Completion, "error: " + `{"code":500,"message":"context shift failed","type":"server_error"}` + "\n\n", told().failed(500, false)},
		{"an old error in a chat", request.Chat, sse(hello) + "error: " + `{"code":503,"message":"Loading model","type":"unavailable_error"}` + "\r\n\r\n" + sse(hello), told().with(2, false).failed(503, true)},
		{"an error", request.Completion, sse(`{"error":{"code":400,"message":"too long","type":"exceed_context_size_error"}}`), told().failed(400, false)},
		{"whole", request.Completion, event("Hi", end), told(9, 6, 2).with(1, true)},
		{"several", request.Completion, "[" + event("a", end) + "," + event("b", end) + "]", told(9, 6, 2).with(1, true)},
	})
}
