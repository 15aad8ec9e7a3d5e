package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// hostile are names that would break what is written down by lines and quotes, or
// fill it.
var hostile = []string{
	"a\"} 1\nfake_metric 9\n",
	strings.Repeat("A", 25_000),
	"nul\x00nul",
	"\x1b[2J\x1b[31mred",
	"\u202eright to left",
	`back\slash\n"quote`,
	"{le=\"+Inf\"}",
	"# HELP fake_metric x\n# TYPE fake_metric counter",
	"line\r\n{\"level\":\"info\",\"msg\":\"fake\"}",
	"\xff\xfe no text",
}

// Clients send names made to break out of a label or of a line of the log, as the
// model, the tenant and the path, and each a new one. The metrics stay what they
// were, to the series, and can be read by the reference parser; each request is one
// line in the log, of JSON, and not a long one.
func TestHostileNames(t *testing.T) {
	const clients = 8
	requests := 20_000 / slowdown
	a := forgetful(t, func(w http.ResponseWriter, r *http.Request, _ int64) { answer(w, r, nil) })
	log := newJournal(t)
	g := start(t, log.directive()+fmt.Sprintf("llm_proxy %s {\n%sindex_bytes 1MiB\ntenant {header.X-Tenant}\ntenant_limit weight 2 named\nclass rich {\nheader X-Class rich\n}\nendpoint %s {\nname a\n}\n}\n", a.addr(), fast, a.addr()))
	// Names that no client library would send: over a bare connection.
	send := func(in *bufio.Reader, c net.Conn, i int) error {
		name := hostile[i%len(hostile)]
		text, err := json.Marshal(fmt.Sprint(name, i))
		if err != nil {
			return err
		}
		if name == hostile[len(hostile)-1] {
			text = []byte(`"` + name + `"`) // bytes that are no text
		}
		body := fmt.Sprintf(`{"model":%s,"messages":[{"role":"user","content":"hi"}]}`, text)
		header := strings.Map(func(r rune) rune {
			if r < ' ' {
				return -1 // what no header can have
			}
			return r
		}, name)
		header = fmt.Sprint(header[:min(len(header), 2000)], i)
		path := chatPath
		if i%4 == 0 {
			path = "/" + escaped(header)
		}
		if i%5 == 0 {
			path += "?" + escaped(header)
		}
		if _, err := fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: %s\r\nX-Tenant: %s\r\nX-Class: %s\r\nContent-Length: %d\r\n\r\n%s", path, g.host(), header, header, len(body), body); err != nil {
			return err
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return err
		}
		if res.Close {
			return io.EOF
		}
		return nil
	}
	many := func(from, to int) {
		var all sync.WaitGroup
		for n := range clients {
			all.Go(func() {
				var c net.Conn
				var in *bufio.Reader
				for i := from + n; i < to; i += clients {
					if c == nil {
						var err error
						if c, err = net.Dial("tcp", g.host()); err != nil {
							t.Error(err)
							return
						}
						in = bufio.NewReader(c)
					}
					if err := send(in, c, i); err != nil {
						c.Close() // closed by the gateway, as it does with what it has not read
						c = nil
					}
				}
				if c != nil {
					c.Close()
				}
			})
		}
		all.Wait()
	}
	many(0, 40*len(hostile)) // what is made once has been made
	g.idle(t)
	before := series(g.families())

	many(40*len(hostile), requests)

	g.idle(t)
	page := read(t, g.fromAdmin("/metrics")).body
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatalf("the metrics cannot be read: %v", err)
	}
	if n := series(families); n != before {
		t.Errorf("%d series, before %d", n, before)
	}
	for name := range families {
		if strings.Contains(name, "fake") {
			t.Errorf("there is a metric %s", name)
		}
	}
	for _, made := range []string{"fake_metric", "AAAA", "\x00", "\x1b", "\u202e", "right to left"} {
		if strings.Contains(page, made) {
			t.Errorf("%q is on the page", made)
		}
	}
	counted := counterOf(families, "caddy_llmlb_requests_total")
	if counted < float64(requests)*0.9 || counted > float64(requests) {
		t.Errorf("%v requests are counted of %d", counted, requests)
	}

	text, err := os.ReadFile(string(log))
	if err != nil {
		t.Fatal(err)
	}
	handled := 0
	for line := range bytes.Lines(text) {
		var entry map[string]any
		if err := json.Unmarshal(line, &entry); err != nil {
			t.Fatalf("a line of the log is no JSON: %v: %.200q", err, line)
		}
		if entry["msg"] == "fake" {
			t.Fatalf("a client has written a line of the log: %.200q", line)
		}
		if entry["msg"] == "handled request" {
			handled++
		}
		if name, _ := entry["llm_model"].(string); len(name) > 1024 {
			t.Fatalf("the log has a model's name of %d bytes", len(name))
		}
	}
	if handled != int(counted) {
		t.Errorf("the log has %d requests, the metrics %v", handled, counted)
	}
}

// escaped writes every byte of a path as %xx, so that the gateway decodes it to
// what it was.
func escaped(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}
