package answer

import (
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Anthropic's Messages API, whose events have names and types.
func TestMessages(t *testing.T) {
	const (
		start = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":5,"output_tokens":1}}}`
		begin = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
		ping  = `{"type":"ping"}`
		close = `{"type":"content_block_stop","index":0}`
		count = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":15}}`
		stop  = `{"type":"message_stop"}`
	)
	delta := func(d string) string { return `{"type":"content_block_delta","index":0,"delta":` + d + `}` }
	text := delta(`{"type":"text_delta","text":"Hi"}`)
	check(t, []reading{
		{"a stream", request.Messages, named(start, begin, ping, text, text, delta(`{"type":"text_delta","text":" you"}`), close, count, stop), told(325, 300, 15).with(3, true)},
		{"without event names", request.Messages, sse(start, begin, text, text, count, stop), told(325, 300, 15).with(2, true)},
		{"nothing yet", request.Messages, named(start, begin, ping), told(325, 300).with(0, false)},
		{"an empty text", request.Messages, named(begin, delta(`{"type":"text_delta","text":""}`)), told()},
		{"thinking", request.Messages, named(delta(`{"type":"thinking_delta","thinking":"hm"}`), delta(`{"type":"signature_delta","signature":"AbC"}`)), told().with(1, false)},
		{"a tool's name", request.Messages, named(`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`, delta(`{"type":"input_json_delta","partial_json":""}`)), told().with(1, false)},
		{"a tool's input", request.Messages, named(delta(`{"type":"input_json_delta","partial_json":"{\"a\":"}`)), told().with(1, false)},
		{"a reason is not the end", request.Messages, named(start, text, count), told(325, 300, 15).with(1, false)},
		{"usage all at the end", request.Messages, named(text, `{"type":"message_delta","delta":{},"usage":{"input_tokens":7,"output_tokens":2}}`, stop), told(7, unknown, 2).with(1, true)},
		{"overload first", request.Messages, named(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`), told().failed(529, true)},
		{"a rate limit", request.Messages, named(`{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`), told().failed(429, true)},
		{"an error later", request.Messages, named(start, text, `{"type":"error","error":{"type":"api_error","message":"Internal server error"}}`), told(325, 300).with(1, false).failed(500, false)},
		{"a type as text", request.Messages, named(delta(`{"type":"text_delta","text":"{\"type\":\"message_stop\"}"}`)), told().with(1, false)},
		{"whole", request.Messages, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn","usage":{"input_tokens":20,"cache_read_input_tokens":0,"output_tokens":2}}`, told(20, 0, 2).with(1, true)},
		{"whole with a tool", request.Messages, `{"type":"message","content":[{"type":"tool_use","id":"t","name":"f","input":{}}]}`, told().with(1, true)},
		{"whole and empty", request.Messages, `{"type":"message","content":[]}`, told().with(0, true)},
		{"a whole error", request.Messages, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, told().with(0, true).failed(529, true)},
	})
}

// OpenAI's Responses API, whose events have names and types.
func TestResponses(t *testing.T) {
	const (
		created  = `{"type":"response.created","sequence_number":0,"response":{"id":"r","status":"in_progress","error":null,"output":[],"usage":null}}`
		running  = `{"type":"response.in_progress","sequence_number":1,"response":{"id":"r","status":"in_progress","error":null,"usage":null}}`
		added    = `{"type":"response.output_item.added","sequence_number":2,"item":{"id":"i","type":"message","content":[]}}`
		part     = `{"type":"response.content_part.added","sequence_number":3,"part":{"type":"output_text","text":""}}`
		whole    = `{"type":"response.output_text.done","sequence_number":9,"text":"Hi you"}`
		complete = `{"type":"response.completed","sequence_number":10,"response":{"id":"r","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Hi you"}]}],"usage":{"input_tokens":30,"input_tokens_details":{"cached_tokens":16},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":1}}}}`
	)
	text := func(n, s string) string {
		return `{"type":"response.output_text.delta","sequence_number":` + n + `,"item_id":"i","output_index":0,"content_index":0,"delta":"` + s + `","logprobs":[]}`
	}
	check(t, []reading{
		{"a stream", request.Responses, named(created, running, added, part, text("4", "Hi"), text("5", " y"), text("16", "ou"), whole, complete), told(30, 16, 4).with(3, true)},
		{"nothing yet", request.Responses, named(created, running, added, part), told()},
		{"cut", request.Responses, named(created, added, part, text("4", "Hi"), whole), told().with(1, false)},
		{"incomplete", request.Responses, named(text("4", "Hi"), `{"type":"response.incomplete","response":{"status":"incomplete","error":null,"usage":{"input_tokens":3,"output_tokens":1}}}`), told(3, unknown, 1).with(1, true)},
		{"[DONE] after it", request.Responses, named(complete) + sse("[DONE]"), told(30, 16, 4).with(0, true).done()},
		{"a call's arguments", request.Responses, named(`{"type":"response.function_call_arguments.delta","delta":"{"}`), told().with(1, false)},
		{"reasoning", request.Responses, named(`{"type":"response.reasoning_summary_text.delta","delta":"hm"}`), told().with(1, false)},
		{"a refusal", request.Responses, named(`{"type":"response.refusal.delta","delta":"no"}`), told().with(1, false)},
		{"code that is no error's", request.Responses, named(`{"type":"response.code_interpreter_call_code.done","code":"503"}`, text("4", "x")), told().with(1, false)},
		{"failed", request.Responses, named(created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"boom"}}}`), told().failed(500, false)},
		{"failed without a reason", request.Responses, named(`{"type":"response.failed","response":{"status":"failed"}}`), told().failed(500, false)},
		{"failed for its rate", request.Responses, named(`{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"later"}}}`), told().failed(429, true)},
		{"an error event", request.Responses, named(`{"type":"error","code":"server_error","message":"The queue is full","param":null}`), told().failed(503, true)},
		{"an error event, type last", request.Responses, sse(`{"code":"rate_limit_exceeded","message":"x","type":"error"}`), told().failed(429, true)},
		{"an error in an object", request.Responses, named(`{"type":"error","error":{"type":"invalid_request_error","message":"overloaded"}}`), told().failed(400, false)},
		{"whole", request.Responses, `{"object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"Hi"}]}],"usage":{"input_tokens":3,"output_tokens":1}}`, told(3, unknown, 1).with(1, true)},
		{"whole with a call", request.Responses, `{"output":[{"type":"function_call","name":"f","arguments":"{}"}]}`, told().with(1, true)},
		{"whole with reasoning", request.Responses, `{"output":[{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]}]}`, told().with(1, true)},
		{"whole and failed", request.Responses, `{"status":"failed","error":{"code":"server_error","message":"boom"},"output":[]}`, told().with(0, true).failed(500, false)},
	})
}
