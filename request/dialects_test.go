package request

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// dialects are those whose bodies are read.
var dialects = []string{
	Chat, Completions, Responses, Messages, OllamaChat, OllamaGenerate, Generate, GenerateStream, Root, Completion,
	Embeddings, Pooling, Classify, Rerank, Score,
}

// filler is text of some blocks' length, of which no piece repeats at a block's.
var filler = strings.Repeat("A sentence that fills blocks. ", 40)

// dialectBody is a legal body and what must be seen in it.
type dialectBody struct {
	name, api, body string
	least           int // canonical bytes; there may be 300 more
	ids             int
	stream          bool
	limit           int
}

// dialectBodies are those of all dialects but chat and completions, whose shapes
// have tests of their own.
var dialectBodies = func() (all []dialectBody) {
	for _, list := range [][]dialectBody{responsesBodies, messagesBodies, ollamaBodies, generateBodies, llamaBodies, encodedBodies} {
		all = append(all, list...)
	}
	return all
}()

// Whatever shape of its dialect a client sends, its cost is known and nothing is
// refused that the engine would take.
func TestDialectShapes(t *testing.T) {
	for _, c := range dialectBodies {
		t.Run(c.api+"/"+c.name, func(t *testing.T) {
			f := understood(t, c.api, c.body)
			if f.PromptBytes < c.least || f.PromptBytes > c.least+300 {
				t.Errorf("%d canonical bytes; want some more than %d", f.PromptBytes, c.least)
			}
			want := c.ids + (f.PromptBytes-4*c.ids+3)/4
			if f.PromptBytes == 0 {
				want = (len(c.body) + 3) / 4
			}
			if f.TokenIDs != c.ids || f.InputTokens != max(1, want) {
				t.Errorf("%d input tokens, %d of them ids; want %d, %d", f.InputTokens, f.TokenIDs, want, c.ids)
			}
			if f.API != c.api || f.Stream != c.stream || f.MaxOutputTokens != c.limit || f.Encodes != Encodes(c.api) {
				t.Errorf("got %+v; want stream %v and limit %d", f, c.stream, c.limit)
			}
		})
	}
}

// conversations are bodies of one that grows by what is added to a list. The first
// turn has a system's text and a user's.
var conversations = []struct {
	api  string
	body func(system, user, more string) string
	turn func(text string) string
}{
	{
		Chat,
		func(system, user, more string) string {
			return chat(`{"role":"system","content":"` + system + `"},{"role":"user","content":"` + user + `"}` + more)
		},
		func(text string) string { return `,{"role":"assistant","content":"` + text + `"}` },
	},
	{
		Responses,
		func(system, user, more string) string {
			return `{"model":"m","instructions":"` + system + `","input":[{"role":"user","content":[{"type":"input_text","text":"` + user + `"}]}` + more + `]}`
		},
		func(text string) string {
			return `,{"type":"reasoning","summary":[],"encrypted_content":"x"},{"type":"message","role":"assistant","content":[{"type":"output_text","text":"` + text + `"}]}`
		},
	},
	{
		Messages,
		func(system, user, more string) string {
			return `{"model":"m","max_tokens":9,"system":[{"type":"text","text":"` + system + `"}],"messages":[{"role":"user","content":"` + user + `"}` + more + `]}`
		},
		func(text string) string {
			return `,{"role":"assistant","content":[{"type":"text","text":"` + text + `"},{"type":"tool_use","id":"t","name":"f","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}`
		},
	},
	{
		OllamaChat,
		func(system, user, more string) string {
			return `{"model":"m","messages":[{"role":"system","content":"` + system + `"},{"role":"user","content":"` + user + `","images":["AA=="]}` + more + `]}`
		},
		func(text string) string { return `,{"role":"assistant","content":"` + text + `"}` },
	},
}

// A conversation that grows keeps its blocks and stays where it is; another user's
// goes its own way, and shares what both begin with.
func TestConversationsInEachDialect(t *testing.T) {
	for _, c := range conversations {
		first := understood(t, c.api, c.body(filler, "one", ""))
		longer := understood(t, c.api, c.body(filler, "one", c.turn(filler)))
		longest := understood(t, c.api, c.body(filler, "one", c.turn(filler)+c.turn("two")))
		if !isPrefix(first.Blocks, longer.Blocks) || !isPrefix(longer.Blocks, longest.Blocks) || len(longer.Blocks) <= len(first.Blocks) {
			t.Errorf("%s: a turn lost blocks: %d, %d, %d", c.api, len(first.Blocks), len(longer.Blocks), len(longest.Blocks))
		}
		if first.Key != longer.Key || first.Key != longest.Key {
			t.Errorf("%s: a turn moved the conversation", c.api)
		}
		other := understood(t, c.api, c.body(filler, "another", ""))
		if other.Key == first.Key {
			t.Errorf("%s: two users' conversations have one key", c.api)
		}
		if n := len(filler) / llmlb.ShortBlock; len(other.Blocks) < n || !isPrefix(first.Blocks[:n], other.Blocks) {
			t.Errorf("%s: two conversations do not share what they begin with", c.api)
		}
		if system := understood(t, c.api, c.body("Other. "+filler, "one", "")); system.Blocks[0] == first.Blocks[0] || system.Key == first.Key {
			t.Errorf("%s: another system's text is the same conversation", c.api)
		}
	}
}

// What names a conversation or keeps caches apart does so in every dialect.
func TestHintsInEachDialect(t *testing.T) {
	for _, c := range dialectBodies {
		with := func(fields string, o *Options) llmlb.Features {
			f, err := Read(c.api, []byte(`{`+fields+c.body[1:]), o)
			if err != nil {
				t.Fatalf("%s/%s: %v", c.api, c.name, err)
			}
			return f
		}
		for _, name := range []string{"prompt_cache_key", "session_id"} {
			if a, b := with(`"`+name+`":"a",`, nil), with(`"`+name+`":"b",`, nil); a.Key == b.Key || !reflect.DeepEqual(a.Blocks, b.Blocks) {
				t.Errorf("%s/%s: %s does not name the conversation alone", c.api, c.name, name)
			}
		}
		if a, b := with("", &Options{Session: "a"}), with("", &Options{Session: "b"}); a.Key == b.Key {
			t.Errorf("%s/%s: the session's header does not name the conversation", c.api, c.name)
		}
		if a, b := with(`"cache_salt":"a",`, nil), with(`"cache_salt":"b",`, nil); len(a.Blocks) > 0 && a.Blocks[0] == b.Blocks[0] {
			t.Errorf("%s/%s: another salt, the same blocks", c.api, c.name)
		}
	}
}

// A body without a prompt is the engine's to answer, but it is no way to be taken
// for less than it is.
func TestNoPrompt(t *testing.T) {
	for _, api := range dialects {
		body := `{"model":"m","something":"` + filler + `"}`
		f := understood(t, api, body)
		if f.InputTokens != (len(body)+3)/4 || f.PromptBytes != 0 || f.Blocks != nil {
			t.Errorf("%s: %+v for %d bytes without a prompt", api, f, len(body))
		}
		if other := understood(t, api, strings.Replace(body, "A sentence", "Another", 1)); other.Key == f.Key {
			t.Errorf("%s: bodies without a prompt all go to one server", api)
		}
		if a, b := mustRead(t, api, body[:len(body)-1]), mustRead(t, api, body); !a.Opaque || !a.Broken || a.Encodes != b.Encodes || a.Model != "" {
			t.Errorf("%s: broken: %+v", api, a)
		}
	}
}

func TestRefusalsInEachDialect(t *testing.T) {
	for _, api := range append([]string{Transcription, Image}, dialects...) {
		for _, body := range []string{
			`{"model":"m","model":"n"}`, `{"Model":"m"}`, `{"priority":1}`, `{"Id_Slot":1}`,
			`{"max_tokens":1,"max_tokens":9}`, `{"n_predict":1,"N_Predict":9}`, `{"options":{},"options":{}}`,
			`{"input":"x","in\u0070ut":"y"}`, `{"text":"x","Text":"y"}`,
		} {
			if _, err := Read(api, []byte(body), nil); err == nil {
				t.Errorf("%s: %s was accepted", api, body)
			}
		}
	}
}

// Forms are passed on as they are. Sound is not counted like text.
func TestForms(t *testing.T) {
	form := "--x\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n" + strings.Repeat("\x01\xFF", 50_000) + "\r\n--x--\r\n"
	for _, api := range []string{Transcription, Image} {
		f := mustRead(t, api, form)
		if !f.Opaque || f.Broken || f.Encodes || f.Stream || f.API != api {
			t.Errorf("%s: %+v", api, f)
		}
		if f.InputTokens < 100 || f.InputTokens > 300 {
			t.Errorf("%s: %d tokens for 100 KB", api, f.InputTokens)
		}
		if other := mustRead(t, api, strings.ReplaceAll(form, "--x", "--y")); other.Key == f.Key {
			t.Errorf("%s: all forms go to one server", api)
		}
	}
	if f := mustRead(t, Image, `{"model":"m","prompt":"a cat","stream":true}`); f.Model != "m" || !f.Stream || !f.Opaque || f.Broken {
		t.Errorf("pictures asked for in JSON: %+v", f)
	}
}

func TestStreamsSSE(t *testing.T) {
	for _, api := range append([]string{Transcription, Image, ""}, dialects...) {
		want := api != "" && !strings.HasPrefix(api, "ollama") && !Encodes(api)
		if got := StreamsSSE(api); got != want {
			t.Errorf("StreamsSSE(%q) = %v; want %v", api, got, want)
		}
	}
}
