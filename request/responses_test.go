package request

import (
	"strings"
	"testing"
)

func input(items string, fields ...string) string {
	return `{"model":"m","input":[` + items + `]` + strings.Join(append([]string{""}, fields...), ",") + `}`
}

var responsesBodies = []dialectBody{
	{"text", Responses, `{"model":"m","input":"` + filler + `","stream":true,"max_output_tokens":7}`, len(filler), 0, true, 7},
	{"instructions", Responses, `{"model":"m","instructions":"` + filler + `","input":"x","max_output_tokens":null,"max_tokens":9}`, len(filler), 0, false, 0},
	{"tools", Responses, input(`{"role":"user","content":"x"}`, `"tools":[{"type":"function","name":"`+filler+`"}]`), len(filler), 0, false, 0},
	{"parts", Responses, input(`{"type":"message","role":"user","content":[{"type":"input_text","text":"` + filler + `"},{"type":"input_image","image_url":"data:image/png;base64,AA=="},{"type":"input_file","file_id":"f"}]}`), len(filler) + 2*mediaBytes, 0, false, 0},
	{"an answer", Responses, input(`{"role":"user","content":"x"},{"id":"m1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"` + filler + `","annotations":[]},{"type":"refusal","refusal":"no"}]}`), len(filler), 0, false, 0},
	{"a call", Responses, input(`{"type":"function_call","call_id":"c","name":"f","arguments":"` + filler + `"},{"type":"function_call_output","call_id":"c","output":"` + filler + `"}`), 2 * len(filler), 0, false, 0},
	{"a result in parts", Responses, input(`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"` + filler + `"},{"type":"input_image","image_url":"u"}]}`), len(filler) + mediaBytes, 0, false, 0},
	{"a call of another kind", Responses, input(`{"type":"custom_tool_call","call_id":"c","name":"patch","input":"` + filler + `"},{"type":"local_shell_call","call_id":"d","action":{"type":"exec","command":["ls"]}}`), len(filler), 0, false, 0},
	{"a picture of the screen", Responses, input(`{"type":"computer_call_output","call_id":"c","output":{"type":"computer_screenshot","image_url":"u"}}`), mediaBytes, 0, false, 0},
	{"reasoning", Responses, input(`{"type":"reasoning","id":"r","summary":[{"type":"summary_text","text":"` + filler + `"}],"content":[{"type":"reasoning_text","text":"` + filler + `"}]}`), 2 * len(filler), 0, false, 0},
	{"hidden reasoning", Responses, input(`{"type":"reasoning","id":"r","summary":[],"encrypted_content":"` + filler + `"}`), mediaBytes, 0, false, 0},
	{"a reference", Responses, input(`{"type":"item_reference","id":"i"}`), mediaBytes, 0, false, 0},
	{"items of wrong types", Responses, input(`null,1,"` + filler + `",[[]],true,{}`), len(filler) + mediaBytes, 0, false, 0},
	{"an object", Responses, `{"input":{"role":"` + filler + `"}}`, len(filler), 0, false, 0},
	{"going on", Responses, `{"model":"m","previous_response_id":"resp_1","input":"x"}`, 0, 0, false, 0},
	{"nothing", Responses, `{"model":"m"}`, 0, 0, false, 0},
	{"another's limit", Responses, `{"input":"x","parameters":{"max_new_tokens":20},"n_predict":5,"options":{"num_predict":3}}`, 0, 0, false, 0},
}

// A text alone and a message of a user with that text are the same prompt.
func TestResponsesSamePrompt(t *testing.T) {
	want := understood(t, Responses, `{"model":"m","input":"`+filler+`"}`)
	for _, body := range []string{
		input(`{"role":"user","content":"` + filler + `"}`),
		input(`{"type":"message","role":"user","content":[{"type":"input_text","text":"` + filler + `"}]}`),
		input(`{"role":"user","content":"`+filler+`","id":"m1","status":null}`, `"store":false`, `"temperature":1`, `"previous_response_id":null`),
	} {
		got := understood(t, Responses, body)
		if !isPrefix(want.Blocks, got.Blocks) || got.Key != want.Key || got.PromptBytes != want.PromptBytes {
			t.Errorf("%.60s… is another prompt", body)
		}
	}
	for name, body := range map[string]string{
		"effort":       input(`{"role":"user","content":"`+filler+`"}`, `"reasoning":{"effort":"high"}`),
		"instructions": input(`{"role":"user","content":"`+filler+`"}`, `"instructions":"x"`),
		"role":         input(`{"role":"developer","content":"` + filler + `"}`),
	} {
		if got := understood(t, Responses, body); got.Key == want.Key || got.Blocks[0] == want.Blocks[0] {
			t.Errorf("%s: the same prompt", name)
		}
	}
}

// What stands in front of the input is with the engine where it keeps the
// conversation, so a body that looks the same is another prompt.
func TestResponsesKeptByTheEngine(t *testing.T) {
	plain := understood(t, Responses, `{"model":"m","input":"`+filler+`"}`)
	seen := map[uint64]string{plain.Key: "none"}
	for _, state := range []string{`"previous_response_id":"resp_1"`, `"previous_response_id":"resp_2"`, `"conversation":"c1"`, `"conversation":{"id":"c2"}`} {
		f := understood(t, Responses, `{"model":"m",`+state+`,"input":"`+filler+`"}`)
		if f.Blocks[0] == plain.Blocks[0] {
			t.Errorf("%s shares blocks with a prompt of its own", state)
		}
		if other, ok := seen[f.Key]; ok {
			t.Errorf("%s and %s have one key", state, other)
		}
		seen[f.Key] = state
		other := understood(t, Responses, `{"model":"m",`+state+`,"input":"another question"}`)
		if other.Key != f.Key {
			t.Errorf("%s: two branches have two keys", state)
		}
		if key := understood(t, Responses, `{"model":"m",`+state+`,"input":"x","prompt_cache_key":"k"}`).Key; key == f.Key {
			t.Errorf("%s counts for more than prompt_cache_key", state)
		}
	}
}

func TestResponsesPictures(t *testing.T) {
	body := func(data string) string {
		return input(`{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,` + data + `"}]}`)
	}
	a, b := understood(t, Responses, body(strings.Repeat("QUJD", 1<<12))), understood(t, Responses, body("AA=="))
	if a.PromptBytes != b.PromptBytes || a.Key == b.Key || a.Blocks[0] == b.Blocks[0] {
		t.Errorf("pictures are told apart by size or not at all: %+v, %+v", a, b)
	}
}
