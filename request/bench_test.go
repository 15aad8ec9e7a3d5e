package request

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// chatBody builds a chat as an agent sends it, about size bytes long: model
// first, a system prompt, turns of prose and code with escapes, a tool call and
// its answer, and the tools behind the messages, where SDKs put them.
func chatBody(size int) []byte {
	const prose = `The queue holds calls until an endpoint can use them.\nIt is \"late binding\": the choice is made with the freshest view.\n\n`
	const code = "```go\\nfunc wait(ctx context.Context) error {\\n\\tselect {\\n\\tcase <-ctx.Done():\\n\\t\\treturn fmt.Errorf(\\\"waiting: %w\\\", ctx.Err())\\n\\t}\\n}\\n```\\n"
	return chatOf(size, func(n int) string {
		return strings.TrimRight(strings.Repeat(prose+code, n/len(prose+code)+1)[:n], `\`)
	})
}

// quotedBody builds one whose prose has an escaped quote every mean bytes, on the
// average: what comes at even distances is foreseen by the machine, and costs less
// than what people write.
func quotedBody(size, mean int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	return chatOf(size, func(n int) string {
		var b strings.Builder
		for b.Len() < n {
			for range rng.IntN(2*mean - 3) {
				b.WriteByte("etaoin shrdlu cmfwyp"[rng.IntN(20)])
			}
			b.WriteString(`\"`)
		}
		return strings.TrimRight(b.String()[:n], `\`)
	})
}

func chatOf(size int, text func(n int) string) []byte {
	const tools = `"tools":[{"type":"function","function":{"name":"read_file","description":"Reads a file.","parameters":{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}}}]`
	var b strings.Builder
	b.WriteString(`{"model":"meta-llama/Llama-3.3-70B-Instruct","messages":[{"role":"system","content":"You are a careful engineer.\n"}`)
	tail := `],"stream":true,"stream_options":{"include_usage":true},"temperature":0.2,"max_tokens":1024,` + tools + `}`
	for turn := 0; b.Len()+len(tail) < size; turn++ {
		room := min(size-b.Len()-len(tail), 4000)
		text := text(max(room-40, 1))
		switch turn % 4 {
		case 0:
			fmt.Fprintf(&b, `,{"role":"user","content":"%s"}`, text)
		case 1:
			fmt.Fprintf(&b, `,{"role":"assistant","content":null,"tool_calls":[{"id":"call_%d","type":"function","function":{"name":"read_file","arguments":"{\"path\":\"a.go\"}"}}]}`, turn)
		case 2:
			fmt.Fprintf(&b, `,{"role":"tool","tool_call_id":"call_%d","content":[{"type":"text","text":"%s"}]}`, turn-1, text)
		case 3:
			fmt.Fprintf(&b, `,{"role":"assistant","content":"%s"}`, text)
		}
	}
	b.WriteString(tail)
	return []byte(b.String())
}

var benchSizes = []struct {
	name string
	size int
}{{"1KB", 1 << 10}, {"32KB", 32 << 10}, {"400KB", 400 << 10}}

func BenchmarkRead(b *testing.B) {
	o := &Options{Seed: 1, AffinityKey: 2}
	for _, kind := range []struct {
		name string
		body func(size int) []byte
	}{
		{"", chatBody},
		{"quoted/", func(size int) []byte { return quotedBody(size, 50) }},
		{"json within/", func(size int) []byte { return quotedBody(size, 10) }},
	} {
		for _, c := range benchSizes {
			body := kind.body(c.size)
			b.Run(kind.name+c.name, func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					if f, err := Read(Chat, body, o); err != nil || f.Opaque {
						b.Fatal(f, err)
					}
				}
			})
		}
	}
}

// BenchmarkReadDialects reads long bodies of the other dialects: they may cost no
// more than a chat does for its size.
func BenchmarkReadDialects(b *testing.B) {
	words := strings.Repeat(`The queue holds calls until \"an endpoint\" can use them.\n`, 1<<6)
	items := func(item string) string { return strings.TrimSuffix(strings.Repeat(item+",", 100), ",") }
	for _, c := range []struct{ api, body string }{
		{Responses, input(items(`{"type":"message","role":"user","content":[{"type":"input_text","text":"` + words + `"}]}`))},
		{Messages, anthropic(items(`{"role":"user","content":[{"type":"text","text":"` + words + `","cache_control":{"type":"ephemeral"}}]}`))},
		{OllamaChat, `{"messages":[` + items(`{"role":"user","content":"`+words+`"}`) + `]}`},
		{OllamaGenerate, `{"prompt":"` + strings.Repeat(words, 100) + `"}`},
		{Generate, `{"text":[` + items(`"`+words+`"`) + `],"sampling_params":{"max_new_tokens":9}}`},
		{Completion, `{"prompt":[` + items(`"`+words+`"`) + `]}`},
		{Embeddings, `{"input":[` + items(`"`+words+`"`) + `]}`},
		{Rerank, `{"query":"q","documents":[` + items(`{"text":"`+words+`"}`) + `]}`},
		{Score, `{"text_1":"q","text_2":[` + items(`"`+words+`"`) + `]}`},
	} {
		body := []byte(c.body)
		b.Run(c.api, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if f, err := Read(c.api, body, nil); err != nil || f.PromptBytes < len(words)*100 {
					b.Fatal(f.PromptBytes, err)
				}
			}
		})
	}
}

func BenchmarkReadTokenIDs(b *testing.B) {
	body := []byte(`{"model":"m","prompt":[` + strings.Repeat("12345,", 65000) + `1]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if f, err := Read(Completions, body, nil); err != nil || f.InputTokens != 65001 {
			b.Fatal(f.InputTokens, err)
		}
	}
}

// BenchmarkReadHostile reads what costs most for its size: the time per byte
// must stay within one order of magnitude of an honest body's and not grow with
// the size.
func BenchmarkReadHostile(b *testing.B) {
	for _, c := range []struct{ api, name, head, piece, tail string }{
		{Chat, "brackets", `{"a":[`, `[],`, `0]}`},
		{Chat, "short messages", `{"messages":[`, `{},`, `{}]}`},
		{Chat, "pictures", `{"messages":[{"role":"user","content":[`, `{},`, `{}]}]}`},
		{Chat, "quotes", `{"messages":[{"role":"user","content":"`, `\"`, `"}]}`},
		{Chat, "quotes of three", `{"messages":[{"role":"user","content":"`, `\\\"`, `"}]}`},
		{Chat, "quotes and signs", `{"messages":[{"role":"user","content":"`, `\"#]`, `"}]}`},
		{Chat, "short strings", `{"messages":[{"role":"user","content":[`, `"",`, `""]}]}`},
		{Chat, "strings", `{"messages":[{"role":"user","content":[`, `"` + strings.Repeat("x", longString) + `",`, `""]}]}`},
		{Chat, "backslashes", `{"messages":[{"role":"user","content":"`, `\\`, `"}]}`},
		{Chat, "keys", `{`, `"MAX":0,`, `"b":0}`},
		{Responses, "short items", `{"input":[`, `{},`, `{}]}`},
		{Messages, "short blocks", `{"messages":[{"role":"user","content":[`, `{},`, `{}]}]}`},
		{Messages, "blocks in blocks", `{"messages":[{"content":[{"content":[`, `{},`, `{}]}]}]}`},
		{Messages, "short tools", `{"tools":[`, `{},`, `{}]}`},
		{Messages, "a tool's members", `{"tools":[{`, `"":0,`, `"a":0}]}`},
		{OllamaChat, "odd names", `{"messages":[{`, `"A":0,`, `"b":0}]}`},
		{Generate, "lists of pictures", `{"image_data":[`, `[],`, `[]]}`},
		{Rerank, "short documents", `{"documents":[`, `{},`, `{}]}`},
	} {
		for _, size := range []int{1 << 20, 8 << 20} {
			body := []byte(c.head + strings.Repeat(c.piece, size/len(c.piece)) + c.tail)
			b.Run(fmt.Sprintf("%s, %s/%dMB", c.api, c.name, size>>20), func(b *testing.B) {
				b.SetBytes(int64(len(body)))
				for b.Loop() {
					if f, err := Read(c.api, body, nil); err != nil || f.Opaque {
						b.Fatal(f.Opaque, err)
					}
				}
			})
		}
	}
}

// The request path is paid for by every call: its name and its blocks are all
// that reading may allocate.
func TestReadAllocates(t *testing.T) {
	o := &Options{Seed: 1, AffinityKey: 2, AllowFields: map[string]bool{"priority": true}}
	for _, c := range benchSizes {
		body := chatBody(c.size)
		if n := testing.AllocsPerRun(20, func() { _, _ = Read(Chat, body, o) }); n > 2 {
			t.Errorf("%s: %v allocations; want at most 2, for the model's name and the blocks", c.name, n)
		}
	}
	body := []byte(`{"model":"m","mod\u0065ls":1,"Stream":true,"prompt":[1,2,3],"max_tokens":7}`)
	if n := testing.AllocsPerRun(20, func() { _, _ = Read(Completions, body, o) }); n > 1 {
		t.Errorf("short completion: %v allocations; want at most 1, for the model's name", n)
	}
}

// Nor may any other dialect allocate more than its name and its blocks. Pictures
// are far longer than they look, so the room for blocks grows where they are most
// of a body.
func TestReadDialectsAllocate(t *testing.T) {
	for _, c := range dialectBodies {
		body, most := []byte(c.body), 2.0
		if understood(t, c.api, c.body).PromptBytes > len(body) {
			most = 4
		}
		if n := testing.AllocsPerRun(20, func() { _, _ = Read(c.api, body, nil) }); n > most {
			t.Errorf("%s/%s: %v allocations; want at most %v", c.api, c.name, n, most)
		}
	}
}
