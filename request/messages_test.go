package request

import (
	"reflect"
	"strings"
	"testing"
)

// anthropic puts messages into a body.
func anthropic(messages string, fields ...string) string {
	return `{"model":"m","max_tokens":1024,"messages":[` + messages + `]` + strings.Join(append([]string{""}, fields...), ",") + `}`
}

var messagesBodies = []dialectBody{
	{"text", Messages, anthropic(`{"role":"user","content":"` + filler + `"}`), len(filler), 0, false, 1024},
	{"stream", Messages, anthropic(`{"role":"user","content":"x"}`, `"stream":true`), 0, 0, true, 1024},
	{"system", Messages, anthropic(`{"role":"user","content":"x"}`, `"system":"`+filler+`"`), len(filler), 0, false, 1024},
	{"system in blocks", Messages, anthropic(`{"role":"user","content":"x"}`, `"system":[{"type":"text","text":"`+filler+`"},{"type":"text","text":"`+filler+`","cache_control":{"type":"ephemeral"}}]`), 2 * len(filler), 0, false, 1024},
	{"tools", Messages, anthropic(`{"role":"user","content":"x"}`, `"tools":[{"name":"f","description":"`+filler+`","input_schema":{"type":"object"}},7]`), len(filler), 0, false, 1024},
	{"a picture", Messages, anthropic(`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + filler + `"}},{"type":"text","text":"` + filler + `"}]}`), len(filler) + mediaBytes, 0, false, 1024},
	{"documents", Messages, anthropic(`{"role":"user","content":[{"type":"document","title":"t","source":{"type":"text","media_type":"text/plain","data":"` + filler + `"}},{"type":"document","source":{"type":"url","url":"u"}}]}`), len(filler) + mediaBytes, 0, false, 1024},
	{"a tool's use", Messages, anthropic(`{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"a":"` + filler + `"}}]}`), len(filler), 0, false, 1024},
	{"its result", Messages, anthropic(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"` + filler + `","is_error":false}]}`), len(filler), 0, false, 1024},
	{"its result in blocks", Messages, anthropic(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"` + filler + `"},{"type":"image","source":{"type":"url","url":"u"}},"plain"]}]}`), len(filler) + mediaBytes, 0, false, 1024},
	{"no result", Messages, anthropic(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t"}]}`), 0, 0, false, 1024},
	{"thinking", Messages, anthropic(`{"role":"assistant","content":[{"type":"thinking","thinking":"` + filler + `","signature":"s"},{"type":"redacted_thinking","data":"` + filler + `"}]}`), len(filler) + mediaBytes, 0, false, 1024},
	{"a search's results", Messages, anthropic(`{"role":"user","content":[{"type":"search_result","source":"u","title":"t","content":[{"type":"text","text":"` + filler + `"}]}]}`), len(filler), 0, false, 1024},
	{"a new kind of block", Messages, anthropic(`{"role":"user","content":[{"type":"new","words":"` + filler + `"},"` + filler + `",null,1]}`), len(filler) + mediaBytes, 0, false, 1024},
	{"wrong types", Messages, `{"messages":[null,"` + filler + `",[],{}],"max_tokens":"x","system":{"a":1},"tools":{}}`, len(filler), 0, false, 0},
	{"messages as text", Messages, `{"messages":"` + filler + `"}`, len(filler), 0, false, 0},
	{"nothing", Messages, anthropic(``), 0, 0, false, 1024},
}

// A client moves its cache markers with every turn. They are no part of the
// prompt, wherever they stand.
func TestCacheMarkersDoNotCount(t *testing.T) {
	body := func(marker string) string {
		return anthropic(
			`{"role":"user","content":[{"type":"text","text":"`+filler+`"`+marker+`},{"type":"image","source":{"type":"url","url":"u"}`+marker+`},`+
				`{"type":"document","source":{"type":"text","data":"d"}`+marker+`},{"type":"new","a":1`+marker+`}]},`+
				`{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{}`+marker+`}]},`+
				`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"x"`+marker+`},{"type":"image","source":{"type":"url","url":"v"}`+marker+`}]`+marker+`}]},`+
				`{"role":"user","content":"`+filler+`"}`,
			`"system":[{"type":"text","text":"s"`+marker+`}]`,
			`"tools":[{"name":"f","input_schema":{"a":[1]}`+marker+`},{"name":"g"`+marker+`}]`,
		)
	}
	want := understood(t, Messages, body(""))
	for _, marker := range []string{`,"cache_control":{"type":"ephemeral"}`, `,"cache_control":{"type":"ephemeral","ttl":"1h"}`, `,"cache_control":null`} {
		if got := understood(t, Messages, body(marker)); !reflect.DeepEqual(got, want) {
			t.Errorf("with %s\n got %+v\nwant %+v", marker, got, want)
		}
	}
	if got := understood(t, Messages, strings.Replace(body(""), `"a":[1]`, `"a":[2]`, 1)); got.Blocks[0] == want.Blocks[0] {
		t.Error("another tool is the same prompt")
	}
	if got := understood(t, Messages, strings.Replace(body(""), `"a":1}`, `"a":2}`, 1)); reflect.DeepEqual(got.Blocks, want.Blocks) {
		t.Error("another block of a new kind is the same prompt")
	}
}

func TestMessagesSamePrompt(t *testing.T) {
	want := understood(t, Messages, anthropic(`{"role":"user","content":"`+filler+`"}`, `"system":"s"`))
	for _, body := range []string{
		anthropic(`{"content":[{"text":"`+filler+`","type":"text"}],"role":"user"}`, `"system":[{"type":"text","text":"s"}]`),
		anthropic(`{"role":"user","content":"`+filler+`"}`, `"system":"s"`, `"temperature":1`, `"metadata":{"user_id":"u"}`, `"thinking":{"type":"enabled"}`),
	} {
		if got := understood(t, Messages, body); !reflect.DeepEqual(got, want) {
			t.Errorf("%.60s…\n got %+v\nwant %+v", body, got, want)
		}
	}
}

// Text that moves from one block or message into its neighbour is another prompt.
func TestMessagesBoundaries(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		anthropic(`{"role":"user","content":[{"type":"text","text":"ab"},{"type":"text","text":"c` + filler + `"}]}`),
		anthropic(`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"bc` + filler + `"}]}`),
		anthropic(`{"role":"user","content":"ab"},{"role":"user","content":"c` + filler + `"}`),
		anthropic(`{"role":"user","content":"abc` + filler + `"}`),
		anthropic(`{"role":"user","content":"c`+filler+`"}`, `"system":"ab"`),
		anthropic(`{"role":"user","content":[{"type":"thinking","thinking":"ab"},{"type":"text","text":"c` + filler + `"}]}`),
		anthropic(`{"role":"user","content":[{"type":"tool_result","tool_use_id":"ab","content":"c` + filler + `"}]}`),
		anthropic(`{"role":"user","content":[{"type":"tool_use","id":"ab","name":"c` + filler + `"}]}`),
	} {
		f := understood(t, Messages, body)
		if other, ok := seen[f.Blocks[0]]; ok {
			t.Errorf("%.90s\nand\n%.90s\nare the same prompt", body, other)
		}
		seen[f.Blocks[0]] = body
	}
}
