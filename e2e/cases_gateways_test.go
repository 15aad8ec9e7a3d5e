package e2e

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// twins starts two gateways, which know nothing of each other, before the same
// three servers. They are two pools of one Caddy, told apart by a header.
func twins(t *testing.T) (ask func(gateway, session, body string) string) {
	t.Helper()
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	var site strings.Builder
	for _, name := range []string{"one", "two"} {
		fmt.Fprintf(&site, "@%s header X-Gateway %s\nllm_proxy @%s %s %s %s {\npool %s\n%s%s}\n",
			name, name, name, list[0].addr(), list[1].addr(), list[2].addr(), name, fast, named(list...))
	}
	g := start(t, site.String())
	for _, b := range list {
		b.seen()
	}
	return func(gateway, session, body string) string {
		t.Helper()
		req, err := http.NewRequest(http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Gateway", gateway)
		if session != "" {
			req.Header.Set("X-Session-Id", session)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		_, _ = io.Copy(io.Discard, res.Body)
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d", res.StatusCode)
		}
		return res.Header.Get("X-LLM-Endpoint")
	}
}

// Two gateways send the same new conversation to the same server.
func TestTwoGatewaysAgreeOnNewConversations(t *testing.T) {
	ask := twins(t)
	used := map[string]int{}
	for i := range 36 {
		body := chat(false, "You are helpful.", fmt.Sprintf("question %d of somebody", i))
		one := ask("one", "", body)
		if two := ask("two", "", body); two != one {
			t.Errorf("conversation %d went to %s by one gateway and to %s by the other", i, one, two)
		}
		used[one]++
	}
	if len(used) != 3 {
		t.Errorf("the conversations went to %v, want all three servers", used)
	}
}

// A session that the client names goes to the same server by every gateway,
// whatever its prompts are.
func TestTwoGatewaysAgreeOnSessions(t *testing.T) {
	ask := twins(t)
	used := map[string]int{}
	for i := range 36 {
		session := fmt.Sprint("session-", i)
		one := ask("one", session, chat(false, "", prose(fmt.Sprintf("%d begins here", i), 3000)))
		if two := ask("two", session, chat(false, "", prose(fmt.Sprintf("%d goes on there", i), 3000))); two != one {
			t.Errorf("%s went to %s by one gateway and to %s by the other", session, one, two)
		}
		used[one]++
	}
	if len(used) != 3 {
		t.Errorf("the sessions went to %v, want all three servers", used)
	}
}
