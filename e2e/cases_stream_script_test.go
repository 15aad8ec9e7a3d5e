package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// part is how a server answers one request.
type part = func(w http.ResponseWriter, r *http.Request, body []byte)

const eventStream = "text/event-stream"

// plays is an answer of these pieces, each flushed by itself, that ends as end
// says; nil is a proper end.
func plays(contentType string, pieces []string, end func(w http.ResponseWriter, r *http.Request)) part {
	return func(w http.ResponseWriter, r *http.Request, _ []byte) {
		w.Header().Set("Content-Type", contentType)
		for _, p := range pieces {
			io.WriteString(w, p)
			_ = http.NewResponseController(w).Flush()
		}
		if end != nil {
			end(w, r)
		}
	}
}

// events makes each text the data of one event.
func events(data ...string) []string {
	list := make([]string, len(data))
	for i, d := range data {
		list[i] = "data: " + d + "\n\n"
	}
	return list
}

// breaks ends an answer by a reset of its connection.
func breaks(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_ = c.(*net.TCPConn).SetLinger(0)
	c.Close()
}

// waits is for a server that waits for the test to go on. It is false when the
// request has ended meanwhile, as it does when the test fails.
func waits(r *http.Request, next <-chan struct{}) bool {
	select {
	case <-next:
		return true
	case <-r.Context().Done():
		return false
	}
}

// falls silent until the gateway gives up.
func falls(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// says is an answer written to the connection as it stands, which is then closed.
func says(text string) part {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(c, text)
		c.Close()
	}
}

// inTurn has the requests answered in the order in which they come to any of the
// servers: by the first part, the second, and so on; the last one goes on.
func inTurn(servers []*backend, parts ...part) {
	var came atomic.Int32
	for _, b := range servers {
		b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
			parts[min(int(came.Add(1)), len(parts))-1](w, r, body)
		})
	}
}

// hits is how many requests came to all of them.
func hits(servers ...*backend) int {
	n := 0
	for _, b := range servers {
		n += b.count()
	}
	return n
}

// fetch sends a body and returns the answer, as far as it came, with the error
// that it broke off with.
func (g *gateway) fetch(client *http.Client, path, body string) (reply, error) {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, g.url+path, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return reply{res.StatusCode, res.Header, string(text)}, err
}

// chatPath is where chats go.
const chatPath = "/v1/chat/completions"

// patient is for tests that have a server wait for what they do: no machine is so
// slow that its answer counts as missing.
const patient = "first_token 60s 120s\n"

// families returns the metrics by name.
func (g *gateway) families() map[string]*dto.MetricFamily {
	g.t.Helper()
	res := g.fromAdmin("/metrics")
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	all, err := parser.TextToMetricFamilies(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

// outcomes returns how many attempts ended in which way, at all endpoints, once
// nothing is open.
func (g *gateway) outcomes() map[string]int {
	g.t.Helper()
	g.idle(g.t)
	n := map[string]int{}
	for _, m := range g.families()["caddy_llmlb_attempts_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if v := int(m.GetCounter().GetValue()); l.GetName() == "outcome" && v > 0 {
				n[l.GetValue()] += v
			}
		}
	}
	return n
}

// ended fails the test unless the attempts ended as given: pairs of an outcome and
// how often.
func (g *gateway) ended(want map[string]int) {
	g.t.Helper()
	if got := g.outcomes(); !maps.Equal(got, want) {
		g.t.Errorf("attempts ended as %v, want %v", got, want)
	}
}

// histogram returns how much a histogram has taken in, at all endpoints.
func (g *gateway) histogram(name string) (count int, sum float64) {
	g.t.Helper()
	family := g.families()[name]
	if family == nil {
		g.t.Fatalf("there is no metric %s", name)
	}
	for _, m := range family.GetMetric() {
		count += int(m.GetHistogram().GetSampleCount())
		sum += m.GetHistogram().GetSampleSum()
	}
	return count, sum
}

// journal is a site's access log. Its line is written when the request is over, so
// no attempt can follow it.
type journal string

func newJournal(t *testing.T) journal {
	t.Helper()
	return journal(filepath.Join(t.TempDir(), "access.log"))
}

func (j journal) directive() string { return fmt.Sprintf("log {\noutput file %s\n}\n", string(j)) }

// entries waits for n requests to be over and returns what the log says of them.
func (j journal) entries(t *testing.T, n int) []map[string]any {
	t.Helper()
	var list []map[string]any
	eventually(t, "the access log", func() bool {
		text, _ := os.ReadFile(string(j))
		list = list[:0]
		for line := range bytes.Lines(text) {
			var entry map[string]any
			if json.Unmarshal(line, &entry) == nil && entry["msg"] == "handled request" {
				list = append(list, entry)
			}
		}
		return len(list) >= n
	})
	return list
}

// arrives waits for something that happens in another goroutine, and returns it.
func arrives[T any](t *testing.T, what string, ch <-chan T) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(20 * time.Second):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

// isError fails the test unless the answer is an error of this status, in JSON.
func (r reply) isError(t *testing.T, status int) {
	t.Helper()
	var body struct {
		Error struct{ Message string }
	}
	err := json.Unmarshal([]byte(r.body), &body)
	if r.status != status || err != nil || body.Error.Message == "" || !strings.HasPrefix(r.header.Get("Content-Type"), "application/json") {
		t.Errorf("status %d (%s) with %q, want %d with an error in JSON", r.status, r.header.Get("Content-Type"), r.body, status)
	}
}
