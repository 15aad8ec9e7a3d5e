package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Clients that give up do not speak against the server they waited for, and the
// log says that it was they who left.
func TestClientsThatGiveUpAreNotTheServersFault(t *testing.T) {
	a := newBackend(t)
	log := filepath.Join(t.TempDir(), "access")
	g := start(t, fmt.Sprintf("log {\noutput file %s\nformat json\n}\nllm_proxy %s {\n%s%s}\n", log, a.addr(), fast, named(a)))
	logged := 0 // lines that were accounted for
	for version, client := range versions(t) {
		for _, tc := range []struct {
			name   string
			hold   func(*backend) (open func())
			status int
		}{
			{"before the answer", silent, 499},
			{"within the stream", gate, http.StatusOK}, // which the client was told
		} {
			t.Run(version+", "+tc.name, func(t *testing.T) {
				open := tc.hold(a)
				defer open()
				const clients = 30
				for range clients {
					g.giveUp(t, client, a, tc.status == http.StatusOK)
				}
				a.await("the requests to end at the server", func() bool { return a.open == 0 })
				eventually(t, "every client to be logged", func() bool { return len(endingsIn(t, log)) >= logged+clients })
				for _, entry := range endingsIn(t, log)[logged:] {
					if entry.Status != tc.status || entry.Outcome != "client_gone" {
						t.Errorf("logged with status %d and outcome %q, want %d and client_gone", entry.Status, entry.Outcome, tc.status)
					}
				}
				eventually(t, "every reservation to go back", func() bool { return g.endpoint("a").Calls == 0 })
				if e := g.endpoint("a"); e.State != "up" || e.ErrorRate != 0 {
					t.Errorf("the server is %s with an error rate of %v", e.State, e.ErrorRate)
				}
				if failed := g.failedAttempts(t); failed != "" {
					t.Errorf("the metrics count failed attempts: %s", failed)
				}
				a.answers(answer)
				if r := g.post(chat(true, "", "hi")); r.status != http.StatusOK || r.body != streamed() {
					t.Errorf("the next request: status %d: %s", r.status, r.body)
				}
				logged += clients + 1
				eventually(t, "the next request to be logged", func() bool { return len(endingsIn(t, log)) == logged })
			})
		}
	}
}

// giveUp sends a request and leaves when it is at the server, or when its answer
// has begun.
func (g *gateway) giveUp(t *testing.T, client *http.Client, b *backend, answered bool) {
	t.Helper()
	before := b.count()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+"/v1/chat/completions", strings.NewReader(chat(true, "", "hi")))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan error, 1)
	begun := make(chan struct{})
	go func() {
		res, err := client.Do(req)
		if err == nil {
			close(begun)
			_, err = io.Copy(io.Discard, res.Body)
			res.Body.Close()
		}
		left <- err
	}()
	b.await("the request", func() bool { return b.hits > before })
	if answered {
		select {
		case <-begun:
		case err := <-left:
			t.Fatal(err)
		}
	}
	cancel()
	if err := <-left; err == nil {
		t.Error("the answer came to its end")
	}
}

// ending is what the tests read of a line in the access log.
type ending struct {
	Status  int    `json:"status"`
	Outcome string `json:"llm_outcome"`
}

// endingsIn reads the whole lines that were logged so far.
func endingsIn(t *testing.T, file string) (list []ending) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e ending
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		list = append(list, e)
	}
	return list
}

// failedAttempts returns the metrics of attempts that ended other than served or given
// up by the client.
func (g *gateway) failedAttempts(t *testing.T) string {
	t.Helper()
	res := g.fromAdmin("/metrics")
	defer res.Body.Close()
	var found []string
	seen := false
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "caddy_llmlb_attempts_total{") {
			continue
		}
		seen = true
		if !strings.Contains(line, `outcome="served"`) && !strings.Contains(line, `outcome="client_gone"`) && !strings.HasSuffix(line, " 0") {
			found = append(found, line)
		}
	}
	if !seen {
		t.Error("no metric counts attempts")
	}
	return strings.Join(found, "\n")
}
