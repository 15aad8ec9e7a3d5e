package request

import (
	"reflect"
	"strings"
	"testing"
)

var ollamaBodies = []dialectBody{
	{"streams by itself", OllamaChat, `{"model":"m","messages":[{"role":"user","content":"` + filler + `"}],"options":{"num_ctx":8,"num_predict":12}}`, len(filler), 0, true, 12},
	{"no stream", OllamaChat, `{"model":"m","messages":[{"role":"user","content":"` + filler + `"}],"stream":false,"options":[{"num_predict":5}]}`, len(filler), 0, false, 0},
	{"pictures", OllamaChat, `{"messages":[{"role":"user","content":"` + filler + `","images":["AA==","QUJD"]}]}`, len(filler) + 2*mediaBytes, 0, true, 0},
	{"tools", OllamaChat, `{"messages":[{"role":"assistant","content":"","thinking":"` + filler + `","tool_calls":[{"function":{"name":"f","arguments":{}}}]},{"role":"tool","tool_name":"f","content":"` + filler + `"}],"tools":[{"type":"function"}]}`, 2 * len(filler), 0, true, 0},
	{"any letter case", OllamaChat, `{"Messages":[{"Role":"user","CONTENT":"` + filler + `"}],"Stream":false,"OPTIONS":{"Num_Predict":5}}`, len(filler), 0, false, 5},
	{"wrong types", OllamaChat, `{"messages":[null,7,"` + filler + `",{}],"stream":null,"options":null}`, len(filler), 0, true, 0},
	{"only to load", OllamaChat, `{"model":"m","messages":[]}`, 0, 0, true, 0},
	{"prompt", OllamaGenerate, `{"model":"m","prompt":"` + filler + `","suffix":"` + filler + `","system":"` + filler + `","template":"t","stream":null}`, 3 * len(filler), 0, true, 0},
	{"endless", OllamaGenerate, `{"prompt":"` + filler + `","stream":false,"options":{"num_predict":-1}}`, len(filler), 0, false, 0},
	{"context", OllamaGenerate, `{"prompt":"` + filler + `","context":[1,2,3,4],"images":["AA=="]}`, len(filler) + 16 + mediaBytes, 4, true, 0},
	{"an empty prompt", OllamaGenerate, `{"model":"m","prompt":""}`, 0, 0, true, 0},
	{"only to load", OllamaGenerate, `{"model":"m","keep_alive":-1}`, 0, 0, true, 0},
	{"context of another type", OllamaGenerate, `{"prompt":"` + filler + `","context":"x","images":"AA=="}`, len(filler) + mediaBytes, 0, true, 0},
}

// Ollama matches names in any letter case, so writing them otherwise hides
// nothing and changes nothing.
func TestOllamaReadsAnyLetterCase(t *testing.T) {
	const body = `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"C","images":["AA=="]}],"tools":[1],"stream":true,"options":{"num_predict":4}}`
	want := understood(t, OllamaChat, body)
	for _, name := range []string{"messages", "role", "content", "images", "tools", "stream", "options", "num_predict"} {
		for _, spelled := range []string{strings.ToUpper(name), `\u00` + hexOf(name[0]-'a'+'A') + name[1:], strings.ReplaceAll(name, "s", "\u017F")} {
			got := understood(t, OllamaChat, strings.ReplaceAll(body, `"`+name+`"`, `"`+spelled+`"`))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v; want %+v", spelled, got, want)
			}
		}
	}
	if f := understood(t, Chat, strings.ReplaceAll(body, "messages", "Messages")); f.PromptBytes > 10 {
		t.Errorf("other engines do not read it, but here it is %d bytes", f.PromptBytes)
	}
}

// Pictures and what the client sends back of the conversation tell prompts apart.
func TestOllamaOtherPrompt(t *testing.T) {
	seen := map[uint64]string{}
	for _, body := range []string{
		`{"prompt":"` + filler + `"}`, `{"prompt":"` + filler + `","system":"x"}`, `{"prompt":"` + filler + `","template":"x"}`,
		`{"prompt":"` + filler + `","context":[1]}`, `{"prompt":"` + filler + `","context":[2]}`,
		`{"prompt":"` + filler + `","images":["a"]}`, `{"prompt":"` + filler + `","images":["b"]}`,
	} {
		f := understood(t, OllamaGenerate, body)
		if other, ok := seen[f.Key]; ok {
			t.Errorf("%s and %s have one key", body, other)
		}
		seen[f.Key] = body
		if f.Blocks[0] == 0 {
			t.Error("no blocks")
		}
	}
	longer := understood(t, OllamaGenerate, `{"prompt":"`+filler+filler+`"}`)
	if !isPrefix(understood(t, OllamaGenerate, `{"prompt":"`+filler+`"}`).Blocks, longer.Blocks) {
		t.Error("a longer prompt lost the blocks of its beginning")
	}
}
