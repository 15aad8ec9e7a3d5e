package simulator

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A streamed chat completion comes as vLLM sends it: the role, one chunk per
// token, the reason for the end, the usage, the end marker.
func TestStreamedChat(t *testing.T) {
	url := start(t, `"name": "sim-a", "model": "tiny", "speed": 50`)
	resp := send(t, t.Context(), url+"/v1/chat/completions",
		`{"model":"tiny","messages":[{"role":"user","content":"hello there"}],"max_tokens":20,"stream":true,"stream_options":{"include_usage":true}}`)
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || !strings.HasPrefix(ct, "text/event-stream") {
		t.Fatalf("status %d, content type %q", resp.StatusCode, ct)
	}
	if got := resp.Header.Get("X-Simulator"); got != "sim-a" {
		t.Errorf("X-Simulator is %q", got)
	}
	chunks := readStream(t, resp.Body)
	if len(chunks) != 1+20+1+1 {
		t.Fatalf("%d chunks, want role, 20 tokens, end and usage", len(chunks))
	}
	for i, c := range chunks {
		if c.ID != chunks[0].ID || !strings.HasPrefix(c.ID, "chatcmpl-") || c.Object != "chat.completion.chunk" || c.Model != "tiny" {
			t.Errorf("chunk %d: %+v", i, c)
		}
	}
	if d := chunks[0].Choices[0].Delta; d.Role != "assistant" || *d.Content != "" {
		t.Errorf("first chunk %+v, want the role and no text", d)
	}
	for i, c := range chunks[1:21] {
		if d := c.Choices[0].Delta; d.Role != "" || *d.Content == "" || c.Choices[0].FinishReason != nil {
			t.Errorf("token %d: %+v", i, c)
		}
	}
	if r := chunks[21].Choices[0].FinishReason; r == nil || *r != "length" {
		t.Errorf("end chunk %+v, want length", chunks[21])
	}
	last := chunks[22]
	if len(last.Choices) != 0 || last.Usage == nil || last.Usage.CompletionTokens != 20 ||
		last.Usage.TotalTokens != last.Usage.PromptTokens+20 {
		t.Errorf("usage chunk %+v", last)
	}
	if text := textOf(chunks); !strings.HasPrefix(text, "This is sim-a.") || len(text) != 20*bytesPerToken {
		t.Errorf("text %q", text)
	}
}

// Without stream_options there is no usage chunk; without max_tokens the
// answer has the configured length and stops by itself.
func TestStreamDefaults(t *testing.T) {
	url := start(t, `"reply_tokens": 7, "speed": 50`)
	for _, tc := range []struct{ path, body string }{
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}],"stream":true}`},
		{"/v1/completions", `{"prompt":"x","stream":true}`},
	} {
		chunks := readStream(t, send(t, t.Context(), url+tc.path, tc.body).Body)
		last := chunks[len(chunks)-1]
		if got := len(textOf(chunks)) / bytesPerToken; got != 7 {
			t.Errorf("%s: %d tokens, want 7", tc.path, got)
		}
		if last.Usage != nil || *last.Choices[0].FinishReason != "stop" {
			t.Errorf("%s: last chunk %+v", tc.path, last)
		}
	}
}

// The same prompt gets the same text, streamed or whole, and a prompt may be
// text or token ids.
func TestWholeAnswers(t *testing.T) {
	url := start(t, `"speed": 50`)
	status, data := ask(t, url+"/v1/chat/completions", `{"model":"sim","messages":[{"role":"user","content":"hi"}],"max_completion_tokens":9,"max_tokens":3}`)
	c := decode(t, data)
	if status != 200 || c.Object != "chat.completion" || c.Choices[0].Message.Role != "assistant" ||
		len(c.Choices[0].Message.Content) != 9*bytesPerToken || *c.Choices[0].FinishReason != "length" ||
		c.Usage.CompletionTokens != 9 {
		t.Errorf("chat: %d %s", status, data)
	}
	streamed := textOf(readStream(t, send(t, t.Context(), url+"/v1/chat/completions",
		`{"messages":[{"role":"user","content":"hi"}],"max_tokens":9,"stream":true}`).Body))
	if streamed != c.Choices[0].Message.Content {
		t.Errorf("streamed %q, whole %q", streamed, c.Choices[0].Message.Content)
	}
	for _, prompt := range []string{`"12345678"`, `["12345678"]`, `[7,8]`, `[[7,8]]`} {
		status, data = ask(t, url+"/v1/completions", `{"prompt":`+prompt+`,"max_tokens":2}`)
		c = decode(t, data)
		if status != 200 || c.Object != "text_completion" || !strings.HasPrefix(c.ID, "cmpl-") ||
			c.Choices[0].Text == nil || len(*c.Choices[0].Text) != 2*bytesPerToken || c.Usage.PromptTokens != 2 {
			t.Errorf("completion of %s: %d %s", prompt, status, data)
		}
	}
}

func TestErrors(t *testing.T) {
	url := start(t, `"kv_tokens": 256, "speed": 50`)
	chat, text := "/v1/chat/completions", "/v1/completions"
	for _, tc := range []struct {
		path, body string
		status     int
		message    string
	}{
		{chat, `{"model":"gpt","messages":[{"role":"user","content":"x"}]}`, 404, "The model `gpt` does not exist."},
		{chat, `{"model":`, 400, "not valid"},
		{chat, `{"messages":"x"}`, 400, "not valid"},
		{chat, ``, 400, "not valid"},
		{chat, `{"messages":[]}`, 400, "messages is required"},
		{chat, `{"messages":[{"role":"user","content":5}]}`, 400, "messages[0].content"},
		{chat, `{"messages":[{"role":"user","content":["x"]}]}`, 400, "a part must be an object"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"n":2}`, 400, "n must be 1"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":0}`, 400, "at least 1"},
		{chat, `{"messages":[{"role":"user","content":"x"}],"max_tokens":1000}`, 400, "maximum context length is 256"},
		{chat, `{"messages":[{"role":"user","content":"` + strings.Repeat("x", 2000) + `"}],"max_tokens":1}`, 400, "maximum context length"},
		{text, `{}`, 400, "prompt is required"},
		{text, `{"prompt":""}`, 400, "must not be empty"},
		{text, `{"prompt":["a","b"]}`, 400, "one prompt per request"},
		{text, `{"prompt":{"a":1}}`, 400, "prompt must be"},
	} {
		status, data := ask(t, url+tc.path, tc.body)
		var e struct{ Error apiError }
		if err := json.Unmarshal(data, &e); err != nil || status != tc.status || e.Error.Code != tc.status ||
			!strings.Contains(e.Error.Message, tc.message) || e.Error.Type == "" {
			t.Errorf("%s %.60s: %d %s", tc.path, tc.body, status, data)
		}
	}
	if s := scrape(t, url); value(t, s, "vllm:num_requests_running") != 0 || value(t, s, "vllm:num_requests_waiting") != 0 {
		t.Error("refused requests left something behind")
	}
}

// A body over the limit is refused and ends the connection, since its rest is
// never read.
func TestBodyLimit(t *testing.T) {
	url := start(t, "")
	resp := send(t, t.Context(), url+"/v1/completions", `{"prompt":"`+strings.Repeat("x", maxBody)+`"}`)
	if resp.StatusCode != http.StatusRequestEntityTooLarge || !resp.Close {
		t.Errorf("status %d, close %v", resp.StatusCode, resp.Close)
	}
}

func TestOtherRoutes(t *testing.T) {
	url := start(t, `"name": "b", "model": "m"`)
	for _, tc := range []struct {
		method, path string
		status       int
		contains     string
	}{
		{"GET", "/health", 200, ""},
		{"GET", "/ping", 200, ""},
		{"POST", "/ping", 200, ""},
		{"GET", "/version", 200, `{"version":"`},
		{"GET", "/v1/models", 200, `"id":"m"`},
		{"HEAD", "/v1/models", 200, ""},
		{"GET", "/v1/chat/completions", 405, "Method Not Allowed"},
		{"DELETE", "/health", 405, "Method Not Allowed"},
		{"GET", "/flush_cache", 404, "Not Found"},
		{"POST", "/v1/embeddings", 404, "Not Found"},
	} {
		req, _ := http.NewRequest(tc.method, url+tc.path, nil)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(body), tc.contains) || resp.Header.Get("X-Simulator") != "b" {
			t.Errorf("%s %s: %d %s (%v)", tc.method, tc.path, resp.StatusCode, body, err)
		}
	}
	// A body sent where none is read ends the connection.
	if resp := send(t, t.Context(), url+"/v1/embeddings", `{"input":"x"}`); !resp.Close {
		t.Error("a connection with an unread body was kept")
	}
}
