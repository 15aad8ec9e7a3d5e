package request

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Every legal shape of a message is read, and what a user sees as the same
// conversation is the same prompt.
func TestChatShapes(t *testing.T) {
	text := strings.Repeat("A sentence that fills blocks. ", 40)
	for _, c := range []struct {
		name, body string
		least      int // canonical bytes
	}{
		{"text and picture", chat(`{"role":"user","content":[{"type":"text","text":"` + text + `"},{"type":"image_url","image_url":{"url":"data:image/png;base64,AA=="}}]}`), len(text) + mediaBytes},
		{"tool answer in parts", chat(`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"` + text + `"}]}`), len(text)},
		{"tool calls without content", chat(`{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"` + text + `"}}]}`), len(text)},
		{"function call", chat(`{"role":"assistant","content":"","function_call":{"name":"f","arguments":"` + text + `"}},{"role":"function","name":"f","content":"1"}`), len(text)},
		{"reasoning", chat(`{"role":"assistant","reasoning_content":"` + text + `","content":"x"}`), len(text)},
		{"other reasoning", chat(`{"role":"assistant","reasoning":"` + text + `","reasoning_content":null}`), len(text)},
		{"refusal", chat(`{"role":"assistant","content":[{"type":"refusal","refusal":"` + text + `"}]}`), len(text)},
		{"refusal beside", chat(`{"role":"assistant","content":null,"refusal":"` + text + `"}`), len(text)},
		{"thinking part", chat(`{"role":"assistant","content":[{"type":"thinking","thinking":"` + text + `"}]}`), len(text)},
		{"plain strings as parts", chat(`{"role":"user","content":["` + text + `","b"]}`), len(text)},
		{"sound, film, file, unknown", chat(`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AA==","format":"wav"}},{"type":"video_url","video_url":{"url":"u"}},{"type":"file","file":{"file_id":"f"}},{"type":"new"}]}`), 4 * mediaBytes},
		{"all roles", chat(`{"role":"developer","content":"` + text + `"},{"role":"system","content":"s"},{"role":"latest_reminder","content":"r"}`), len(text)},
		{"tools", chat(`{"role":"user","content":"x"}`, `"tools":[{"type":"function","function":{"name":"`+text+`"}}]`), len(text)},
		{"functions", chat(`{"role":"user","content":"x"}`, `"functions":[{"name":"`+text+`"}]`), len(text)},
		{"documents", chat(`{"role":"user","content":"x"}`, `"documents":[{"text":"`+text+`"}]`), len(text)},
		{"escaped keys inside", `{"messages":[{"r\u006fle":"user","c\u006fntent":"` + text + `"}]}`, len(text)},
		{"content of a wrong type", chat(`{"role":"user","content":{"a":"` + text + `"}}`), len(text)},
		{"messages as text", `{"messages":"` + text + `"}`, len(text)},
		{"messages of wrong types", `{"messages":[null,1,"` + text + `",[[]],true]}`, len(text)},
		{"no messages", `{"model":"m"}`, 0},
		{"empty messages", chat(``), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := understood(t, Chat, c.body)
			if f.PromptBytes < c.least || f.PromptBytes > c.least+300 {
				t.Errorf("%d canonical bytes; want some more than %d", f.PromptBytes, c.least)
			}
			want := (f.PromptBytes + 3) / 4
			if f.PromptBytes == 0 {
				want = (len(c.body) + 3) / 4
			}
			if f.InputTokens != want {
				t.Errorf("%d input tokens; want %d", f.InputTokens, want)
			}
		})
	}
}

func TestChatSamePrompt(t *testing.T) {
	fill := strings.Repeat("x", 600)
	want := understood(t, Chat, `{"model":"m","tools":[{"t":1}],"messages":[{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}]}`)
	for name, body := range map[string]string{
		"keys in another order":   `{"messages":[{"content":"` + fill + `","role":"system"},{"content":"hi","role":"user"}],"tools":[{"t":1}],"model":"m"}`,
		"one text part":           `{"model":"m","tools":[{"t":1}],"messages":[{"role":"system","content":[{"type":"text","text":"` + fill + `"}]},{"role":"user","content":[{"text":"hi","type":"text"}]}]}`,
		"white space":             "{ \"model\" : \"m\",\n\"tools\":[{\"t\":1}] , \"messages\" : [ {\"role\": \"system\", \"content\": \"" + fill + "\" } , { \"role\" : \"user\" , \"content\":\"hi\" } ] }",
		"fields that do not tell": `{"model":"m","temperature":0.5,"user":"u","seed":1,"tool_choice":"auto","response_format":{"type":"json_object"},"tools":[{"t":1}],"messages":[{"role":"system","content":"` + fill + `","id":"7"},{"role":"user","content":"hi","cache_control":{}}]}`,
		"nulls":                   `{"model":"m","documents":null,"cache_salt":null,"prompt_cache_key":"","tools":[{"t":1}],"messages":[{"role":"system","content":"` + fill + `","name":null,"tool_calls":null},{"role":"user","content":"hi"}]}`,
		"escaped model":           `{"model":"\u006d","tools":[{"t":1}],"messages":[{"role":"system","content":"` + fill + `"},{"role":"user","content":"hi"}]}`,
	} {
		got := understood(t, Chat, body)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v; want %+v", name, got, want)
		}
	}
}

func TestChatOtherPrompt(t *testing.T) {
	fill := strings.Repeat("x", 600)
	base := understood(t, Chat, chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`))
	for name, body := range map[string]string{
		"model":            strings.Replace(chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`), `"m"`, `"n"`, 1),
		"salt":             chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"cache_salt":"s"`),
		"extra key":        chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"extra_key":"s"`),
		"adapter":          chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"lora":[{"id":0,"scale":1}]`),
		"tools":            chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"tools":[]`),
		"template":         chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"chat_template":"x"`),
		"arguments":        chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"chat_template_kwargs":{"enable_thinking":false}`),
		"reasoning effort": chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"reasoning_effort":"high"`),
		"documents":        chat(`{"role":"system","content":"`+fill+`"},{"role":"user","content":"hi"}`, `"documents":[{}]`),
		"role":             chat(`{"role":"developer","content":"` + fill + `"},{"role":"user","content":"hi"}`),
		"name":             chat(`{"role":"system","name":"n","content":"` + fill + `"},{"role":"user","content":"hi"}`),
		"more parts":       chat(`{"role":"system","content":["","` + fill + `"]},{"role":"user","content":"hi"}`),
	} {
		got := understood(t, Chat, body)
		if got.Key == base.Key {
			t.Errorf("%s: same conversation key", name)
		}
		if got.Blocks[0] == base.Blocks[0] {
			t.Errorf("%s: same first block", name)
		}
	}
}

// Text that moves from one message into its neighbour is another prompt to the
// engine, so it must be another one here.
func TestChatBoundaries(t *testing.T) {
	fill := strings.Repeat("y", 300)
	seen := map[uint64]string{}
	for _, messages := range []string{
		`{"role":"user","content":"ab"},{"role":"user","content":"c` + fill + `"}`,
		`{"role":"user","content":"a"},{"role":"user","content":"bc` + fill + `"}`,
		`{"role":"user","content":"abc` + fill + `"}`,
		`{"role":"user","content":["ab","c` + fill + `"]}`,
		`{"role":"userab","content":"c` + fill + `"}`,
		`{"role":"user","name":"ab","content":"c` + fill + `"}`,
		`{"role":"user","content":"ab\"r"},{"content":"c` + fill + `"}`,
		`{"content":"ab"},{"content":"c` + fill + `"}`,
		`{"content":"ab"},{},{"content":"c` + fill + `"}`,
	} {
		f := understood(t, Chat, chat(messages))
		if other, ok := seen[f.Blocks[0]]; ok {
			t.Errorf("%s\nand\n%s\nare the same prompt", messages, other)
		}
		seen[f.Blocks[0]] = messages
	}
}

// A picture of megabytes is one fixed piece, told apart by its data.
func TestChatPictures(t *testing.T) {
	body := func(data string) string {
		return chat(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,` + data + `"}},{"type":"text","text":"What is this?"}]}`)
	}
	big := strings.Repeat("QUJD", 1<<18)
	a, b, small := understood(t, Chat, body(big)), understood(t, Chat, body(big[:len(big)-1]+"X")), understood(t, Chat, body("AA=="))
	if a.PromptBytes != small.PromptBytes || a.PromptBytes > 2*mediaBytes {
		t.Errorf("a picture of 1 MB takes %d bytes and one of 1 byte %d; want the same small number", a.PromptBytes, small.PromptBytes)
	}
	if a.Blocks[0] == b.Blocks[0] || a.Key == b.Key {
		t.Error("two pictures that differ in their last byte are taken for one")
	}
	other := *testOptions
	other.Seed++
	f, err := Read(Chat, []byte(body(big)), &other)
	if err != nil || f.Key != a.Key {
		t.Errorf("key %x with another process's seed; want %x (error %v)", f.Key, a.Key, err)
	}
	if f.Blocks[0] == a.Blocks[0] {
		t.Error("blocks do not depend on the process's seed")
	}

	parts := strings.Repeat(`{"a":1},`, 20000)
	many := chat(`{"role":"user","content":[` + parts + `{}]}`)
	if f := understood(t, Chat, many); f.PromptBytes > manyMedia*mediaBytes+20001*mediaCrumb+100 {
		t.Errorf("a body of %d bytes unfolds into %d canonical bytes", len(many), f.PromptBytes)
	}
}

// A conversation that grows keeps its blocks, whatever kind of message comes.
func TestChatGrows(t *testing.T) {
	long := strings.Repeat("Some long text, \\\"quoted\\\". ", 300)
	messages := []string{
		`{"role":"system","content":"` + long + `"}`,
		`{"role":"user","content":"first"}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}`,
		`{"role":"tool","tool_call_id":"c","content":[{"type":"text","text":"` + long + `"},{"type":"image_url","image_url":{"url":"u"}}]}`,
		`{"role":"assistant","content":"` + long + `"}`,
		`{"role":"user","content":"second"}`,
	}
	var last llmlb.Features
	for n := 1; n <= len(messages); n++ {
		// An SDK may put what follows the messages in any order and number.
		f := understood(t, Chat, chat(strings.Join(messages[:n], ","), fmt.Sprintf(`"max_tokens":%d`, n), `"tools":[{"t":1}]`))
		if n > 1 && !isPrefix(last.Blocks, f.Blocks) {
			t.Fatalf("turn %d does not begin with the blocks of turn %d", n, n-1)
		}
		if n > 2 && f.Key != last.Key {
			t.Fatalf("turn %d has another key than turn %d", n, n-1)
		}
		last = f
	}
}

// With one preamble for everybody the key must still tell sessions apart, by
// what the user said first.
func TestChatKeyLooksBehindThePreamble(t *testing.T) {
	preamble := strings.Repeat("p", 12<<10)
	keys := map[uint64]bool{}
	for i := range 30 {
		f := understood(t, Chat, chat(fmt.Sprintf(`{"role":"system","content":"%s"},{"role":"user","content":"Question %d?"}`, preamble, i)))
		keys[f.Key] = true
	}
	if len(keys) != 30 {
		t.Errorf("30 sessions have %d keys", len(keys))
	}
}

func TestPromptCacheKey(t *testing.T) {
	body := func(text, key string) llmlb.Features {
		return understood(t, Chat, chat(`{"role":"user","content":"`+text+`"}`, `"prompt_cache_key":`+key))
	}
	a, b, other, none := body("a", `"k"`), body("b", `"k"`), body("a", `"l"`), body("a", `null`)
	if a.Key != b.Key {
		t.Error("one prompt_cache_key gives two conversation keys")
	}
	if a.Key == other.Key || a.Key == none.Key {
		t.Error("prompt_cache_key does not tell conversations apart")
	}
	if wrong := body("a", `7`); wrong.Key != none.Key {
		t.Error("a prompt_cache_key that is no string counts")
	}
}
