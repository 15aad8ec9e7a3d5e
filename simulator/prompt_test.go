package simulator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func chatText(t *testing.T, data string) string {
	t.Helper()
	var b body
	if err := json.Unmarshal([]byte(data), &b); err != nil {
		t.Fatal(err)
	}
	p, err := b.chatPrompt()
	if err != nil {
		t.Fatal(err)
	}
	if len(p)%bytesPerToken != 0 {
		t.Errorf("%q is not made of whole tokens", p)
	}
	return string(p)
}

// Everything that a chat template would show to the model is in the prompt, in
// its order.
func TestChatPrompt(t *testing.T) {
	const end = "<|assistant|>\n\n\n"
	for _, tc := range []struct{ name, body, want string }{
		{"text", `{"messages":[{"role":"user","content":"hello"}]}`, "<|user|>hello\n\n\n" + end},
		{"parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"bcd"}]}]}`, "<|user|>abcd" + end},
		{"image", `{"messages":[{"role":"user","content":[{"type":"image_url","n":1}]}]}`, `<|user|>{"type":"image_url","n":1}` + "\n\n" + end},
		{"no content", `{"messages":[{"role":"user","content":null},{"role":"user"}]}`, "<|user|><|user|>" + end},
		{"tool calls", `{"messages":[{"role":"user","content":"","tool_calls":[1,234]}]}`, "<|user|>[1,234]\n" + end},
		{"tools come first", `{"tools":[{"a":1}],"messages":[{"role":"user","content":"abcd"}]}`, `[{"a":1}]` + "\n\n\n<|user|>abcd" + end},
	} {
		if got := chatText(t, tc.body); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Equal heads have equal block ids up to the first difference and none after,
// even where the text is equal again.
func TestBlockIDs(t *testing.T) {
	text := []byte(strings.Repeat("0123456789abcdef", 16))
	ids := blockIDs(text, 4, "")
	if len(ids) != 16 {
		t.Fatalf("%d blocks, want 16", len(ids))
	}
	if sorted := slices.Compact(slices.Sorted(slices.Values(ids))); len(sorted) != 16 {
		t.Error("repeated text has repeated ids")
	}
	if !slices.Equal(blockIDs(text[:100], 4, ""), ids[:6]) {
		t.Error("a shorter text has other ids")
	}
	changed := slices.Clone(text)
	changed[5*16] = 'x'
	for i, id := range blockIDs(changed, 4, "") {
		if same := id == ids[i]; same != (i < 5) {
			t.Errorf("block %d: same id %v after a change in block 5", i, same)
		}
	}
	if blockIDs(text, 4, "salt")[0] == ids[0] {
		t.Error("a salt does not keep caches apart")
	}
}

// An answer reads word by word, goes on for ever, and always is the same for
// the same prompt.
func TestAnswer(t *testing.T) {
	if len(phrases)%bytesPerToken != 0 {
		t.Fatalf("the phrases have %d bytes, not whole tokens", len(phrases))
	}
	first := map[string]bool{}
	for hash := range uint64(8) {
		a := newAnswer("gpu-12", hash)
		text := a.text(200)
		if len(text) != 800 || !strings.HasPrefix(text, "This is gpu-12.. ") || text != newAnswer("gpu-12", hash).text(200) {
			t.Errorf("answer %q", text)
		}
		if !strings.HasPrefix(a.text(300), text) {
			t.Error("a longer answer does not begin like a shorter one")
		}
		first[a.token(len(a.intro)/bytesPerToken)] = true
	}
	if len(first) != 4 {
		t.Errorf("answers begin with %v", first)
	}
	for i := 0; i < len(phrases); i += bytesPerToken {
		if phrases[i] != ' ' || strings.Contains(phrases[i+1:i+bytesPerToken], " ") {
			t.Errorf("token %q is not a word", phrases[i:i+bytesPerToken])
		}
	}
}
