package admission

import (
	"io"
	"net/http"
	"testing"
)

// A server answers a prompt by switching to another protocol, which nobody asked for.
// The client once got an empty 200 for that, and the server counted as one that serves.
func TestAProtocolThatNobodyAskedForIsNoAnswer(t *testing.T) {
	e := newEngine(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
	})
	g := start(t, site{upstreams: []string{e.address()}, noRetries: true})
	resp, body := g.post(chatPath, plain)
	wantError(t, resp, body, http.StatusBadGateway, "upstream_error")
	g.calm()
	if got := g.access()["llm_outcome"]; got != "engine_error" {
		t.Errorf("the outcome is %v, want engine_error", got)
	}
}
