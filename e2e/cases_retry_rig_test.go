package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// steered starts two servers of which every new prompt goes to a first, while a
// can be used at all.
func steered(t *testing.T, options string) (g *gateway, a, b *backend) {
	t.Helper()
	g, a, b = pair(t, options)
	onlyFree(a, a, b)
	return g, a, b
}

// alone starts one server, named a.
func alone(t *testing.T, options string) (*gateway, *backend) {
	t.Helper()
	a := newBackend(t)
	return start(t, fmt.Sprintf("llm_proxy %s {\n%s%s%s}\n", a.addr(), fast, named(a), options)), a
}

// Ways of a server to fail a request.

// status answers with an error in the engine's own words, and with a Retry-After
// when it is not empty.
func status(code int, retryAfter, words string) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		io.WriteString(w, words)
	}
}

// unshared gives each request a connection of its own: on a used one, a server
// that closes it at once may not have read the request, which is sent again.
const unshared = "transport {\nkeepalive off\n}\n"

// closes ends the connection without a byte.
func closes(http.ResponseWriter, *http.Request, []byte) { panic(http.ErrAbortHandler) }

// cuts ends the connection after the given number of events.
func cuts(after int) func(http.ResponseWriter, *http.Request, []byte) {
	return func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, e := range answerEvents[:after] {
			send(w, e)
		}
		panic(http.ErrAbortHandler)
	}
}

// attempts returns how many attempts at the endpoint have ended in which way.
func (g *gateway) attempts(endpoint string) map[string]int {
	g.t.Helper()
	ended := map[string]int{}
	for _, m := range g.families()["caddy_llmlb_attempts_total"].GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		if v := int(m.GetCounter().GetValue()); v > 0 && labels["endpoint"] == endpoint {
			ended[labels["outcome"]] += v
		}
	}
	return ended
}

// total is how many attempts that is.
func total(ended map[string]int) (n int) {
	for _, of := range ended {
		n += of
	}
	return n
}

// within is how long a machine under load may take for what takes no time.
const within = 10 * time.Second

// discreet checks that an answer of the gateway's own tells nothing of how the
// servers are reached or what went wrong in Go's words.
func discreet(t *testing.T, r reply, servers ...*backend) {
	t.Helper()
	secret := []string{"127.0.0.1", "dial", "EOF", "tcp", "refused", "reset by", "context ", "goroutine", ".go:"}
	for _, b := range servers {
		_, port, _ := net.SplitHostPort(b.addr())
		secret = append(secret, port)
	}
	header := r.header.Clone()
	header.Del("Date")
	all := r.body + fmt.Sprint(header)
	for _, s := range secret {
		if strings.Contains(all, s) {
			t.Errorf("the answer tells %q: %s", s, all)
		}
	}
}

// failovers are the two settings under which a refused request is sent elsewhere.
var failovers = []struct{ name, options string }{
	{"no_token", ""},
	{"unsent", "failover unsent\n"},
}
