package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// delta is the data of an event with some text.
func delta(text string) string {
	return fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

// What a stream comes to is told by what was in it: one that lacks its end is
// never given a clean one, and one that has it is not called cut. Whatever it is,
// the client gets the server's bytes, and no other server is asked after a token.
func TestStreamsEndAsWhatTheyAre(t *testing.T) {
	const (
		role   = `{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`
		finish = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage  = `{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"total_tokens":13}}`
		failed = `{"error":{"message":"boom","code":500}}`
		done   = "[DONE]"
	)
	broken := events(role)
	for i := range 60 {
		if i == 9 {
			broken = append(broken, "data: {\"bro\n\n")
		}
		broken = append(broken, events(delta(fmt.Sprint("word ", i)))...)
	}
	broken = append(broken, events(done)...)
	for _, tc := range []struct {
		name    string
		pieces  []string
		clean   bool
		outcome string
	}{
		{"neither finish_reason nor [DONE]", events(role, delta("a"), delta("b"), delta("c")), false, "truncated"},
		{"cut within an event", append(events(role, delta("a")), `data: {"choices":[{"ind`), false, "truncated"},
		{"finish_reason and no [DONE]", events(role, delta("a"), finish), true, "served"},
		{"[DONE] and no finish_reason", events(role, delta("a"), done), true, "served"},
		{"no blank line at the end", append(events(role, delta("a"), finish), "data: [DONE]"), true, "served"},
		{"usage after [DONE]", events(role, delta("a"), finish, done, usage), true, "served"},
		{"an error event, then the end", events(role, delta("a"), failed), true, "engine_error"},
		{"an error event, then [DONE]", events(role, delta("a"), failed, done), true, "engine_error"},
		{"a malformed event among sixty", broken, true, "served"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, a, b := pair(t, "")
			inTurn([]*backend{a, b}, plays(eventStream, tc.pieces, nil), answer)
			r, err := g.fetch(http.DefaultClient, chatPath, chat(true, "", "hi"))
			if want := strings.Join(tc.pieces, ""); r.status != http.StatusOK || r.body != want {
				t.Errorf("status %d, the client got %q, want %q", r.status, r.body, want)
			}
			if clean := err == nil; clean != tc.clean || !clean && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("a clean end: %v (%v), want %v", clean, err, tc.clean)
			}
			if n := hits(a, b); n != 1 {
				t.Errorf("%d servers were asked, want 1", n)
			}
			g.ended(map[string]int{tc.outcome: 1})
			if row := g.endpoint(r.endpoint()); (row.ErrorRate > 0) != (tc.outcome != "served") {
				t.Errorf("error rate %v of a server whose answer was %s", row.ErrorRate, tc.outcome)
			}
		})
	}
}

// With error_event a client of a stream that was cut is told so in its own
// dialect, after all that the server sent, and the stream still breaks off.
func TestACutStreamEndsWithAnErrorEventWhereAskedFor(t *testing.T) {
	for _, tc := range []struct {
		name, path, body, contentType string
		pieces                        []string
	}{
		{"chat", chatPath, chat(true, "", "hi"), eventStream, events(answerEvents[:3]...)},
		{"cut within a line", chatPath, chat(true, "", "hi"), eventStream, append(events(answerEvents[:3]...), `data: {"choi`)},
		{"messages", "/v1/messages", `{"model":"m","stream":true,"max_tokens":9,"messages":[]}`, eventStream, []string{
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"one\"}}\n\n",
		}},
		{"ollama", "/api/chat", `{"model":"m","messages":[]}`, "application/x-ndjson", []string{
			"{\"model\":\"m\",\"message\":{\"role\":\"assistant\",\"content\":\"one\"},\"done\":false}\n",
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g, a, b := pair(t, "error_event on\n")
			inTurn([]*backend{a, b}, plays(tc.contentType, tc.pieces, nil), answer)
			r, err := g.fetch(http.DefaultClient, tc.path, tc.body)
			if !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("the stream ended with %v, want it to break off", err)
			}
			rest, found := strings.CutPrefix(r.body, strings.Join(tc.pieces, ""))
			if !found {
				t.Fatalf("the client got %q, want what the server sent first", r.body)
			}
			rest = strings.Trim(rest, "\n")
			if tc.contentType == eventStream {
				line := rest[strings.LastIndexByte(rest, '\n')+1:]
				if rest, found = strings.CutPrefix(line, "data: "); !found {
					t.Fatalf("no event in %q", line)
				}
			}
			var event struct{ Error json.RawMessage }
			if err := json.Unmarshal([]byte(rest), &event); err != nil || len(event.Error) == 0 {
				t.Errorf("the error event is %q: %v", rest, err)
			}
			if strings.Contains(r.body, "[DONE]") {
				t.Errorf("an end was invented: %q", r.body)
			}
			if n := hits(a, b); n != 1 {
				t.Errorf("%d servers were asked, want 1", n)
			}
			g.ended(map[string]int{"truncated": 1})
		})
	}
}

// A stream that is whole gets no event of ours.
func TestAWholeStreamGetsNoErrorEvent(t *testing.T) {
	g, _, _ := pair(t, "error_event on\n")
	if r := g.post(chat(true, "", "hi")); r.body != streamed() {
		t.Errorf("the client got %q", r.body)
	}
	g.ended(map[string]int{"served": 1})
}
