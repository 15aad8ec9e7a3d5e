package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
)

// spoken is a path of an API: what a client sends there, what its server answers,
// and what the gateway is to learn of it.
type spoken struct {
	name, path string

	// body is a request that begins with the prefix, if the API has a place for one,
	// and ends with the question. Headers are pairs.
	body   func(model, prefix, question string) string
	header []string

	answerType string
	answer     []string // in pieces

	prompt, output any // tokens, as the log has them; nil for not told

	modelless bool // the request names no model
	wrong     func(status int, answer map[string]any) bool
}

// shaped is an error in the shape of OpenAI's API and others.
func shaped(status int, answer map[string]any) bool {
	e, _ := answer["error"].(map[string]any)
	return text(e["message"]) && text(e["type"]) && text(e["code"])
}

// anthropicShaped is one of the Messages API, which has types of its own.
func anthropicShaped(status int, answer map[string]any) bool {
	e, _ := answer["error"].(map[string]any)
	kind := map[int]any{http.StatusNotFound: "not_found_error", http.StatusTooManyRequests: "rate_limit_error"}[status]
	return answer["type"] == "error" && text(e["message"]) && e["type"] == kind
}

// ollamaShaped is one of Ollama's, which is a text.
func ollamaShaped(_ int, answer map[string]any) bool { return text(answer["error"]) }

// tgiShaped is one of TGI's, which is a text and has a type beside it.
func tgiShaped(_ int, answer map[string]any) bool {
	return text(answer["error"]) && text(answer["error_type"])
}

// llamaShaped is one of llama.cpp's own, where the code is the status.
func llamaShaped(status int, answer map[string]any) bool {
	e, _ := answer["error"].(map[string]any)
	return text(e["message"]) && text(e["type"]) && e["code"] == float64(status)
}

func text(v any) bool {
	s, ok := v.(string)
	return ok && s != ""
}

const jsonType = "application/json"

// inJSON makes a body of a format with three places, for the model, the prefix and
// the question.
func inJSON(format string) func(model, prefix, question string) string {
	return func(model, prefix, question string) string {
		return strings.NewReplacer("MODEL", model, "PREFIX", prefix, "QUESTION", question).Replace(format)
	}
}

// boundary parts the forms of the tests.
const boundary = "a-line-between"

// form is a recording of a MiB and what is asked of it.
func form(model, prefix, question string) string {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(boundary); err != nil {
		panic(err)
	}
	file, err := w.CreateFormFile("file", "speech.wav")
	if err != nil {
		panic(err)
	}
	sound := make([]byte, 1<<20)
	copy(sound, "RIFF"+prefix)
	for i := len(prefix) + 4; i < len(sound); i++ {
		sound[i] = byte(i * i >> 3)
	}
	_, _ = file.Write(sound)
	_ = w.WriteField("model", model)
	_ = w.WriteField("prompt", question)
	w.Close()
	return b.String()
}

// zipped compresses what another makes.
func zipped(body func(model, prefix, question string) string) func(model, prefix, question string) string {
	return func(model, prefix, question string) string {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		io.WriteString(w, body(model, prefix, question))
		w.Close()
		return b.String()
	}
}

var chatFormat = inJSON(`{"model":"MODEL", "messages":[{"role":"system","content":"PREFIX"},{"role":"user","content":"QUESTION"}]}`)

const chatAnswer = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":3,"total_tokens":15}}`

var allSpoken = []spoken{
	{
		name: "chat", path: chatPath, body: chatFormat, wrong: shaped,
		answerType: jsonType, answer: []string{chatAnswer}, prompt: 12.0, output: 3.0,
	},
	{
		name: "chat, compressed", path: chatPath, body: zipped(chatFormat), header: []string{"Content-Encoding", "gzip"}, wrong: shaped,
		answerType: jsonType, answer: []string{chatAnswer}, prompt: 12.0, output: 3.0,
	},
	{
		name: "responses", path: "/v1/responses", wrong: shaped,
		body:       inJSON(`{"model":"MODEL","instructions":"PREFIX","input":"QUESTION"}`),
		answerType: jsonType,
		answer:     []string{`{"id":"r","object":"response","status":"completed","error":null,"output":[{"type":"message","id":"y","role":"assistant","content":[{"type":"output_text","text":"hello"}]}],"usage":{"input_tokens":12,"output_tokens":3,"total_tokens":15}}`},
		prompt:     12.0, output: 3.0,
	},
	{
		name: "embeddings", path: "/v1/embeddings", wrong: shaped,
		body:       inJSON(`{"model":"MODEL","input":["PREFIX QUESTION"]}`),
		answerType: jsonType,
		answer:     []string{`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5]}],"model":"m","usage":{"prompt_tokens":12,"total_tokens":12}}`},
		prompt:     12.0,
	},
	{
		name: "messages, streamed", path: "/v1/messages", wrong: anthropicShaped,
		body:       inJSON(`{"model":"MODEL","max_tokens":9,"stream":true,"system":"PREFIX","messages":[{"role":"user","content":"QUESTION"}]}`),
		answerType: eventStream,
		answer: namedEvents(
			"message_start", `{"type":"message_start","message":{"id":"x","type":"message","role":"assistant","content":[],"usage":{"input_tokens":12,"output_tokens":1}}}`,
			"content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			"content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hello"}}`,
			"content_block_stop", `{"type":"content_block_stop","index":0}`,
			"message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}`,
			"message_stop", `{"type":"message_stop"}`,
		),
		prompt: 12.0, output: 3.0,
	},
	{
		name: "Ollama chat, streamed by default", path: "/api/chat", wrong: ollamaShaped,
		body:       inJSON(`{"model":"MODEL","messages":[{"role":"system","content":"PREFIX"},{"role":"user","content":"QUESTION"}]}`),
		answerType: ndjson,
		answer: lines(
			`{"model":"m","message":{"role":"assistant","content":"hel"},"done":false}`,
			`{"model":"m","message":{"role":"assistant","content":"lo"},"done":false}`,
			`{"model":"m","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","prompt_eval_count":12,"eval_count":3}`,
		),
		prompt: 12.0, output: 3.0,
	},
	{
		name: "Ollama generate, whole", path: "/api/generate", wrong: ollamaShaped,
		body:       inJSON(`{"model":"MODEL","stream":false,"system":"PREFIX","prompt":"QUESTION"}`),
		answerType: jsonType,
		answer:     []string{`{"model":"m","response":"hello","done":true,"done_reason":"stop","prompt_eval_count":12,"eval_count":3}`},
		prompt:     12.0, output: 3.0,
	},
	{
		name: "TGI generate", path: "/generate", modelless: true, wrong: tgiShaped,
		body:       inJSON(`{"inputs":"PREFIX QUESTION","parameters":{"max_new_tokens":9,"details":true}}`),
		answerType: jsonType,
		answer:     []string{`{"generated_text":"hello","details":{"finish_reason":"eos_token","generated_tokens":3,"seed":null,"prefill":[],"tokens":[]}}`},
		output:     3.0,
	},
	{
		name: "TGI generate_stream", path: "/generate_stream", modelless: true, wrong: tgiShaped,
		body:       inJSON(`{"inputs":"PREFIX QUESTION","parameters":{"max_new_tokens":9}}`),
		answerType: eventStream,
		answer: []string{
			`data:{"index":1,"token":{"id":5,"text":"hel","logprob":-0.5,"special":false},"generated_text":null,"details":null}` + "\n\n",
			`data:{"index":2,"token":{"id":6,"text":"lo","logprob":-0.5,"special":false},"generated_text":"hello","details":{"finish_reason":"eos_token","generated_tokens":3,"input_length":12}}` + "\n\n",
		},
		prompt: 12.0, output: 3.0,
	},
	{
		name: "SGLang generate", path: "/generate", modelless: true, wrong: tgiShaped,
		body:       inJSON(`{"text":"PREFIX QUESTION","sampling_params":{"max_new_tokens":9}}`),
		answerType: jsonType,
		answer:     []string{`{"text":"hello","output_ids":[5,6,7],"meta_info":{"id":"x","finish_reason":{"type":"stop","matched":2},"prompt_tokens":12,"completion_tokens":3}}`},
		prompt:     12.0, output: 3.0,
	},
	{
		name: "llama.cpp completion", path: "/completion", modelless: true, wrong: llamaShaped,
		body:       inJSON(`{"prompt":"PREFIX QUESTION","n_predict":9}`),
		answerType: jsonType,
		answer:     []string{`{"index":0,"content":"hello","tokens":[],"stop":true,"stop_type":"eos","tokens_predicted":3,"tokens_evaluated":12,"tokens_cached":14}`},
		prompt:     12.0, output: 3.0,
	},
	{
		name: "rerank", path: "/v1/rerank", wrong: shaped,
		body:       inJSON(`{"model":"MODEL","query":"PREFIX QUESTION","documents":["one","two"]}`),
		answerType: jsonType,
		answer:     []string{`{"id":"x","model":"m","usage":{"prompt_tokens":12,"total_tokens":12},"results":[{"index":1,"document":{"text":"two"},"relevance_score":0.5},{"index":0,"document":{"text":"one"},"relevance_score":0.25}]}`},
		prompt:     12.0,
	},
	{
		name: "score", path: "/score", wrong: shaped,
		body:       inJSON(`{"model":"MODEL","text_1":"PREFIX QUESTION","text_2":["one","two"]}`),
		answerType: jsonType,
		answer:     []string{`{"id":"x","object":"list","data":[{"index":0,"object":"score","score":0.5}],"model":"m","usage":{"prompt_tokens":12,"total_tokens":12}}`},
		prompt:     12.0,
	},
	{
		name: "audio transcription", path: "/v1/audio/transcriptions", modelless: true, wrong: shaped,
		body: form, header: []string{"Content-Type", "multipart/form-data; boundary=" + boundary},
		answerType: jsonType,
		answer:     []string{`{"text":"hello","usage":{"type":"duration","seconds":3}}`},
	},
}

// speaks sends a body as the path's clients do.
func (g *gateway) speaks(t *testing.T, s *spoken, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+s.path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", jsonType)
	for i := 0; i < len(s.header); i += 2 {
		req.Header.Set(s.header[i], s.header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, res)
}

// Every API goes through byte for byte, there and back, and the gateway learns how
// many tokens that were.
func TestEveryAPIGoesThroughUnchanged(t *testing.T) {
	for _, s := range allSpoken {
		t.Run(s.name, func(t *testing.T) {
			a, log := newBackend(t), newJournal(t)
			g := start(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%s}\n", a.addr(), fast))
			var said http.Header
			a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
				said = r.Header.Clone()
				plays(s.answerType, s.answer, nil)(w, r, body)
			})
			body := s.body("m", prose("a prefix", 3000), "what is it?")
			r := g.speaks(t, &s, body)
			if want := strings.Join(s.answer, ""); r.status != http.StatusOK || r.body != want || r.header.Get("Content-Type") != s.answerType {
				t.Errorf("status %d, %s: %q, want %q", r.status, r.header.Get("Content-Type"), r.body, want)
			}
			if got := a.lastBody(); string(got) != body {
				t.Errorf("%d bytes arrived, and not the %d that were sent", len(got), len(body))
			}
			a.mu.Lock()
			if a.hits != 1 || a.paths[0] != "POST "+s.path {
				t.Errorf("the server was asked %q", a.paths)
			}
			a.mu.Unlock()
			for i := 0; i < len(s.header); i += 2 {
				if got := said.Get(s.header[i]); got != s.header[i+1] {
					t.Errorf("%s arrived as %q", s.header[i], got)
				}
			}
			entry := log.entries(t, 1)[0]
			if entry["llm_prompt_tokens"] != s.prompt || entry["llm_output_tokens"] != s.output {
				t.Errorf("logged with %v prompt and %v output tokens, want %v and %v", entry["llm_prompt_tokens"], entry["llm_output_tokens"], s.prompt, s.output)
			}
			if model := entry["llm_model"]; model != "m" && !s.modelless {
				t.Errorf("logged with model %v", model)
			}
			g.ended(map[string]int{"served": 1})
		})
	}
}

// Requests of every API that begin in the same way go to the server that was asked
// first.
func TestEveryAPIKeepsToItsServer(t *testing.T) {
	for _, s := range allSpoken {
		t.Run(s.name, func(t *testing.T) {
			g, a, b := pair(t, "")
			a.answers(plays(s.answerType, s.answer, nil))
			b.answers(plays(s.answerType, s.answer, nil))
			const conversations = 6
			first := make([]string, conversations)
			for round := range 3 {
				for i := range first {
					r := g.speaks(t, &s, s.body("m", prose(fmt.Sprint("conversation ", i), 6000), fmt.Sprintf("question %d?", round)))
					if r.status != http.StatusOK {
						t.Fatalf("status %d: %s", r.status, r.body)
					}
					if round == 0 {
						first[i] = r.endpoint()
					} else if r.endpoint() != first[i] {
						t.Errorf("conversation %d went to %s, then to %s (%s)", i, first[i], r.endpoint(), r.decision())
					}
				}
				g.idle(t)
			}
			if s.header == nil && g.speaks(t, &s, s.body("m", prose("conversation 0", 6000), "at last?")).decision() != "warm" {
				t.Error("the prefix is not known to be where it was sent")
			}
		})
	}
}

// An error of the gateway's own has the shape that the API's clients read.
func TestEveryAPIHasItsOwnErrors(t *testing.T) {
	for _, s := range allSpoken {
		t.Run(s.name, func(t *testing.T) {
			a := lister(t, raw(jsonType, `{"object":"list","data":[{"id":"m","object":"model"}]}`))
			g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%squeue 0\nendpoint %s {\nname a\nmax_concurrent 1\n}\n}\n", a.addr(), fast, patient, a.addr()))
			eventually(t, "the server's models to be known", func() bool { return len(g.endpoint("a").Models) == 1 })
			a.seen() // its engine is known by its metrics
			open := gate(a)
			defer open()
			finish := holdStream(g, chat(true, "", "runs"))
			check := func(model string, status int, code string) {
				t.Helper()
				r := g.speaks(t, &s, s.body(model, "", "hi"))
				var answer map[string]any
				err := json.Unmarshal([]byte(r.body), &answer)
				if err != nil || r.status != status || r.header.Get("Content-Type") != jsonType || !s.wrong(status, answer) || !strings.Contains(r.body, code) {
					t.Errorf("status %d, %s: %s; want %d, %s in the API's shape", r.status, r.header.Get("Content-Type"), r.body, status, code)
				}
				if retry := r.header.Get("Retry-After"); (retry != "") != (status == http.StatusTooManyRequests) {
					t.Errorf("Retry-After is %q", retry)
				}
			}
			check("m", http.StatusTooManyRequests, "at_capacity")
			if !s.modelless {
				check("nobody's", http.StatusNotFound, "model_not_found")
			}
			open()
			finish()
			if n := a.count(); n != 1 {
				t.Errorf("%d requests reached the server, want the stream alone", n)
			}
		})
	}
}
