package request

import (
	"net/http"
	"strings"
	"testing"
)

// A client that names its session is kept together by that name, whatever its
// prompts begin with. A prompt_cache_key in the body is more precise and wins.
func TestSessionsAreConversations(t *testing.T) {
	key := func(session, body string) uint64 {
		f, err := Read(Chat, []byte(body), &Options{Session: session})
		if err != nil {
			t.Fatal(err)
		}
		return f.Key
	}
	hello, other := chat(`{"role":"user","content":"hello"}`), chat(`{"role":"user","content":"another question"}`)
	if key("s1", hello) != key("s1", other) {
		t.Error("two prompts of one session have two keys")
	}
	if key("s1", hello) == key("s2", hello) || key("s1", hello) == key("", hello) {
		t.Error("the session does not tell conversations apart")
	}
	if key("s1", `{"model":"a","messages":[]}`) == key("s1", `{"model":"b","messages":[]}`) {
		t.Error("one session with two models has one key")
	}
	cached := chat(`{"role":"user","content":"hello"}`, `"prompt_cache_key":"c"`)
	if key("s1", cached) != key("s2", cached) {
		t.Error("the session counts for more than prompt_cache_key")
	}
	if key("s1", "no JSON") != key("s1", "none either") || key("s1", "no JSON") == key("s2", "no JSON") {
		t.Error("a body that is not understood does not go by its session")
	}
}

// Whichever header names the session, the most explicit one counts, and only so
// much of it.
func TestSessionOf(t *testing.T) {
	h := http.Header{}
	if got := SessionOf(h); got != "" {
		t.Errorf("without headers: %q", got)
	}
	h.Set("session_id", "codex")
	if got := SessionOf(h); got != "codex" {
		t.Errorf("session_id: %q", got)
	}
	for _, name := range sessionHeaders { // or the lookup would miss them
		if http.CanonicalHeaderKey(name) != name {
			t.Errorf("%s is not spelled as headers are kept", name)
		}
	}
	h.Set("X-Session-Id", strings.Repeat("x", 5000))
	if got := SessionOf(h); got != strings.Repeat("x", maxSession) {
		t.Errorf("X-Session-Id: %d bytes", len(got))
	}
	h.Set("X-Session-Id", "")
	if got := SessionOf(h); got != "codex" {
		t.Errorf("an empty X-Session-Id hides the other: %q", got)
	}
}
