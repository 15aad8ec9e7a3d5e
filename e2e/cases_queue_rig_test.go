package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// single starts one server, named a, that is given so many requests at a time.
func single(t *testing.T, most int, options string) (*gateway, *backend) {
	t.Helper()
	a := newBackend(t)
	return start(t, singleSite(a, most, options)), a
}

func singleSite(a *backend, most int, options string) string {
	return fmt.Sprintf("llm_proxy %s {\n%s%s%sendpoint %s {\nname a\nmax_concurrent %d\n}\n}\n", a.addr(), fast, patient, options, a.addr(), most)
}

// steps is a server that does one thing at a time, and when the test says so.
type steps struct {
	t    *testing.T
	came chan string   // what was asked, in the order of arrival
	next chan struct{} // one for each answer
}

// stepping makes the server tell of each request and answer it when told.
func stepping(t *testing.T, b *backend) *steps {
	s := &steps{t: t, came: make(chan string, 1024), next: make(chan struct{})}
	b.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		s.came <- question(body)
		if waits(r, s.next) {
			answer(w, r, body)
		}
	})
	return s
}

// arrived is what the request that came next has asked.
func (s *steps) arrived() string {
	s.t.Helper()
	return arrives(s.t, "a request at the server", s.came)
}

// answer has the request answered that is there.
func (s *steps) answer() {
	s.t.Helper()
	select {
	case s.next <- struct{}{}:
	case <-s.t.Context().Done():
	}
}

// serve answers n requests, one after the other, and returns in which order they
// came. The one that is there first was told of already.
func (s *steps) serve(n int) (order []string) {
	s.t.Helper()
	for range n {
		s.answer()
		order = append(order, s.arrived())
	}
	return order
}

// question is what a chat body asks in the end.
func question(body []byte) string {
	var q struct{ Messages []struct{ Content string } }
	if json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		return ""
	}
	return q.Messages[len(q.Messages)-1].Content
}

// queues sends requests, each after the one before waits, and returns what brings
// their answers. Headers are pairs of name and value.
func (g *gateway) queues(t *testing.T, client *http.Client, questions []string, header ...string) []<-chan reply {
	t.Helper()
	var list []<-chan reply
	for _, q := range questions {
		before := g.queued()
		list = append(list, g.asks(t, client, q, header...))
		eventually(t, "the request to wait", func() bool { return g.queued() == before+1 })
	}
	return list
}

// asks sends one question in the background.
func (g *gateway) asks(t *testing.T, client *http.Client, question string, header ...string) <-chan reply {
	t.Helper()
	return g.posts(t, client, chat(false, "", question), header...)
}

// posts sends a body in the background. The answer's status is 0 when none came.
func (g *gateway) posts(t *testing.T, client *http.Client, body string, header ...string) <-chan reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.url+chatPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	done := make(chan reply, 1)
	go func() {
		res, err := client.Do(req)
		if err != nil {
			done <- reply{body: err.Error()}
			return
		}
		done <- read(t, res)
	}()
	return done
}

// answerOn reads an answer from a bare connection.
func answerOn(t *testing.T, c net.Conn) reply {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, res)
}

// allServed waits for the answers and fails the test unless all are good.
func allServed(t *testing.T, list []<-chan reply) {
	t.Helper()
	for i, done := range list {
		if r := arrives(t, "an answer", done); r.status != http.StatusOK {
			t.Errorf("request %d: status %d: %s", i, r.status, r.body)
		}
	}
}

// numbered is n questions that begin with a word.
func numbered(word string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(word, " ", i)
	}
	return list
}

// configured loads the site again with something that a Caddyfile's site cannot
// say.
func (g *gateway) configured(t *testing.T, site string, change func(config map[string]any)) {
	t.Helper()
	text, err := g.adapt(site)
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := json.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	change(config)
	if text, err = json.Marshal(config); err != nil {
		t.Fatal(err)
	}
	g.loads.Add(1)
	if err := caddy.Load(text, true); err != nil {
		t.Fatal(err)
	}
}
