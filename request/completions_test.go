package request

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func prompt(p string, fields ...string) string {
	return `{"model":"m","prompt":` + p + strings.Join(append([]string{""}, fields...), ",") + `}`
}

func idList(from, n int) string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(from + i)
	}
	return strings.Join(ids, ",")
}

// Every shape in which engines take a prompt is read, and token ids are counted
// exactly. Without a prompt the size of the body counts.
func TestPromptShapes(t *testing.T) {
	for _, c := range []struct {
		name, body            string
		kind                  promptKind
		bytes, input, ceiling int
	}{
		{"string", prompt(`"abcdef"`), textPrompt, 8, 2, 7},
		{"empty string", prompt(`""`), textPrompt, 2, 1, 7},
		{"strings", prompt(`["ab","cd"]`), textPrompts, 8, 2, 14},
		{"ids", prompt(`[1,2,3,4]`), idPrompt, 16, 4, 7},
		{"lists of ids", prompt(`[[1,2],[3,4]]`), idPrompts, 16, 4, 14},
		{"empty", prompt(`[]`), noPrompt, 0, 10, 7},
		{"list of nothing", prompt(`[[]]`), idPrompts, 0, 11, 7},
		{"null", prompt(`null`), noPrompt, 0, 11, 7},
		{"number", prompt(`5`), otherPrompt, 3, 1, 7},
		{"object", prompt(`{"a":[]}`), otherPrompt, 10, 3, 7},
		{"ids and text", prompt(`[12,"abcd",13]`), mixedPrompt, 14, 4, 7},
		{"text and lists", prompt(`["ab",[1,2]]`), mixedPrompt, 12, 3, 14},
		{"text within a list", prompt(`[[1,"ab"]]`), mixedPrompt, 8, 2, 7},
		{"odd ids", prompt(`[-1,1.5,99999999999,0,4294967295]`), idPrompt, 20, 5, 7},
		{"prompt with pictures", prompt(`[{"prompt_string":"abcd","multimodal_data":["AA=="]}]`), mixedPrompt, mediaBytes + 6, 258, 7},
		{"text and suffix", prompt(`"abcdef"`, `"suffix":"gh"`), textPrompt, 12, 3, 7},
		{"embeddings", prompt(`null`, `"prompt_embeds":"`+strings.Repeat("A", 5000)+`"`), noPrompt, mediaBytes, 256, 7},
		{"space", prompt(" [ 1 ,\n2 ]"), idPrompt, 8, 2, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := strings.TrimSuffix(c.body, "}") + `,"max_tokens":7}`
			f := understood(t, Completions, body)
			if f.PromptBytes != c.bytes || f.InputTokens != c.input || f.MaxOutputTokens != c.ceiling {
				t.Errorf("%d bytes, %d in, %d out; want %d, %d, %d", f.PromptBytes, f.InputTokens, f.MaxOutputTokens, c.bytes, c.input, c.ceiling)
			}
			var r reading
			if _, refusal := r.top(Completions, []byte(body), testOptions); refusal != nil {
				t.Fatal(refusal)
			}
			var h canon
			h.start(testOptions, 0)
			if kind, _ := r.completions(&h); kind != c.kind {
				t.Errorf("kind %d; want %d", kind, c.kind)
			}
		})
	}
}

// Two prompts that share 600 token ids share the blocks of 600 token ids: nine
// of 64 ids and no more.
func TestTokenIDPrefix(t *testing.T) {
	a := understood(t, Completions, prompt(`[`+idList(1000, 600)+`,1]`))
	b := understood(t, Completions, prompt(`[`+idList(1000, 600)+`,2,`+idList(0, 100)+`]`))
	nested := understood(t, Completions, prompt(`[[`+idList(1000, 600)+`,1]]`))
	shared := 0
	for shared < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[shared] == b.Blocks[shared] {
		shared++
	}
	if want := 600 * 4 / llmlb.ShortBlock; shared != want {
		t.Errorf("%d shared blocks; want %d", shared, want)
	}
	if !reflect.DeepEqual(a, nested) {
		t.Errorf("a prompt alone in a list differs: %+v and %+v", a, nested)
	}
	if a.InputTokens != 601 || b.InputTokens != 701 {
		t.Errorf("%d and %d input tokens; want 601 and 701", a.InputTokens, b.InputTokens)
	}
}

func TestPromptBoundaries(t *testing.T) {
	seen := map[uint64]string{}
	for _, p := range []string{
		`[` + idList(0, 70) + `]`,
		`[[` + idList(0, 10) + `],[` + idList(10, 60) + `]]`,
		`[[` + idList(0, 11) + `],[` + idList(11, 59) + `]]`,
		`[[],[` + idList(0, 70) + `]]`,
		`["a",` + idList(0, 70) + `]`,
		`["",` + idList(0, 70) + `]`,
		`["a","b` + strings.Repeat("c", 300) + `"]`,
		`["ab","` + strings.Repeat("c", 300) + `"]`,
		`"ab` + strings.Repeat("c", 300) + `"`,
	} {
		f := understood(t, Completions, prompt(p))
		if other, ok := seen[f.Blocks[0]]; ok {
			t.Errorf("%.80s\nand\n%.80s\nare the same prompt", p, other)
		}
		seen[f.Blocks[0]] = p
	}
}

func TestPromptKey(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		same       bool
	}{
		{"text beyond 4 KiB", `"` + strings.Repeat("a", 4094) + `X"`, `"` + strings.Repeat("a", 4094) + `YY"`, true},
		{"text within 4 KiB", `"` + strings.Repeat("a", 4093) + `X"`, `"` + strings.Repeat("a", 4093) + `Y"`, false},
		{"ids beyond 1,024", `[` + idList(0, 1024) + `,7]`, `[` + idList(0, 1024) + `,8,9]`, true},
		{"ids within 1,024", `[` + idList(0, 1023) + `,7]`, `[` + idList(0, 1023) + `,8]`, false},
		{"short texts", `"a"`, `"b"`, false},
	} {
		a, b := understood(t, Completions, prompt(c.a)), understood(t, Completions, prompt(c.b))
		if (a.Key == b.Key) != c.same {
			t.Errorf("%s: keys %x and %x; want the same: %v", c.name, a.Key, b.Key, c.same)
		}
	}
}

// Whether the tokenizer adds a first token moves all the others.
func TestAddSpecialTokens(t *testing.T) {
	p := `[` + idList(0, 70) + `]`
	a, b := understood(t, Completions, prompt(p)), understood(t, Completions, prompt(p, `"add_special_tokens":false`))
	if a.Blocks[0] == b.Blocks[0] || a.InputTokens != b.InputTokens {
		t.Errorf("got %+v and %+v; want other blocks, same tokens", a, b)
	}
}
