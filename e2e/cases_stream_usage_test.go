package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// counting is a server that adds a usage chunk to its streams if asked for one,
// as vLLM does, and tells what it was asked.
func counting(asked *[]bool) part {
	return func(w http.ResponseWriter, _ *http.Request, body []byte) {
		var q struct {
			StreamOptions struct {
				IncludeUsage bool `json:"include_usage"`
			} `json:"stream_options"`
		}
		_ = json.Unmarshal(body, &q)
		*asked = append(*asked, q.StreamOptions.IncludeUsage)
		w.Header().Set("Content-Type", eventStream)
		for _, e := range answerEvents[:5] {
			send(w, e)
		}
		if q.StreamOptions.IncludeUsage {
			send(w, usageChunk)
		}
		send(w, answerEvents[5])
	}
}

const usageChunk = `{"id":"x","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":77,"completion_tokens":33,"total_tokens":110}}`

// With usage inject the engine is asked for usage whatever the client wants. Who
// did not ask gets every byte that it would have got, and no other; who did gets
// its own chunk. Either way the gateway knows what was generated.
func TestUsageIsAskedForInTheClientsPlace(t *testing.T) {
	withUsage := strings.Join(events(append(append(append([]string{}, answerEvents[:5]...), usageChunk), answerEvents[5])...), "")
	for _, tc := range []struct {
		name, options, body, want string
		asked, known              bool
	}{
		{"not asked", "usage inject\n", chat(true, "", "hi"), streamed(), true, true},
		{
			"refused", "usage inject\n",
			`{"model":"m","stream":true,"stream_options":{"include_usage":false},"messages":[{"role":"user","content":"hi"}]}`, streamed(), true, true,
		},
		{
			"asked", "usage inject\n",
			`{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, withUsage, true, true,
		},
		{"observed alone", "", chat(true, "", "hi"), streamed(), false, false},
	} {
		for _, protocol := range []string{"h1", "h2"} {
			t.Run(tc.name+"/"+protocol, func(t *testing.T) {
				a, log := newBackend(t), newJournal(t)
				var asked []bool
				a.answers(counting(&asked))
				g := secure(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%s%s}\n", a.addr(), fast, tc.options))
				r, err := g.fetch(g.over(t, protocol), chatPath, tc.body)
				if err != nil || r.body != tc.want {
					t.Errorf("%v: the client got %q, want %q", err, r.body, tc.want)
				}
				entry := log.entries(t, 1)[0]
				if len(asked) != 1 || asked[0] != tc.asked {
					t.Errorf("the engine was asked for usage: %v, want %v", asked, tc.asked)
				}
				if got, known := entry["llm_prompt_tokens"]; known != tc.known || known && got != 77.0 {
					t.Errorf("prompt tokens in the log: %v, known %v; want 77, %v", got, known, tc.known)
				}
				if got := entry["llm_output_tokens"]; tc.known && got != 33.0 {
					t.Errorf("output tokens in the log: %v, want 33", got)
				}
				g.ended(map[string]int{"served": 1})
			})
		}
	}
}

// The request that was asked for usage is sent again as it is when the first
// server fails, and the chunk is kept from the client then too.
func TestUsageIsAskedForInEveryAttempt(t *testing.T) {
	g, a, b := pair(t, "usage inject\n")
	var asked []bool
	inTurn([]*backend{a, b}, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }, counting(&asked))
	r, err := g.fetch(http.DefaultClient, chatPath, chat(true, "", "hi"))
	if err != nil || r.body != streamed() {
		t.Errorf("%v: the client got %q, want %q", err, r.body, streamed())
	}
	if string(a.lastBody()) != string(b.lastBody()) {
		t.Errorf("the second server got %q, the first %q", b.lastBody(), a.lastBody())
	}
	g.idle(t)
	if len(asked) != 1 || !asked[0] {
		t.Errorf("the second engine was asked for usage: %v", asked)
	}
}
