package e2e

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// Of each answer it can be told where it came from and why there: by headers that
// name servers and tell no address, and in the access log. With headers off the
// client is told nothing at all, whatever becomes of its request, and the log is as
// before.
func TestWhoServedAndWhyIsTold(t *testing.T) {
	for _, headers := range []string{"on", "off"} {
		t.Run(headers, func(t *testing.T) {
			a := lister(t, raw("application/json", `{"object":"list","data":[{"id":"m","object":"model"}]}`))
			b := lister(t, raw("application/json", `{"object":"list","data":[{"id":"m","object":"model"}]}`))
			log := newJournal(t)
			g := start(t, log.directive()+fmt.Sprintf("llm_proxy %s %s {\n%s%sheaders %s\ncircuit off\nqueue 1\n%s}\n", a.addr(), b.addr(), fast, patient, headers,
				strings.ReplaceAll(named(a, b), "name", "max_concurrent 1\nname")))
			eventually(t, "the servers' models to be known", func() bool {
				return len(g.endpoint("a").Models) == 1 && len(g.endpoint("b").Models) == 1
			})
			a.seen()
			b.seen()
			one := func(answer part) {
				for _, s := range []*backend{a, b} {
					s.answers(answer)
				}
			}
			lines := 0
			said := func(name string, r reply, status int, server, decision string, attempts float64) {
				t.Helper()
				if r.status != status {
					t.Errorf("%s: status %d: %s", name, r.status, r.body)
				}
				lines++
				entry := log.entries(t, lines)[lines-1]
				at, _ := entry["llm_endpoint"].(string)
				why, _ := entry["llm_decision"].(string)
				tries, _ := entry["llm_attempts"].(float64)
				if !regexp.MustCompile("^(?:"+server+")$").MatchString(at) || !regexp.MustCompile("^(?:"+decision+")$").MatchString(why) || tries != attempts {
					t.Errorf("%s: logged as %q by %q in %v attempts, want %q, %q, %v", name, at, why, tries, server, decision, attempts)
				}
				for field := range r.header {
					if headers == "off" && strings.HasPrefix(strings.ToLower(field), "x-llm") {
						t.Errorf("%s: the client is told %s: %s", name, field, r.header.Get(field))
					}
					if v := fmt.Sprint(r.header[field]); strings.Contains(v, a.addr()) || strings.Contains(v, b.addr()) {
						t.Errorf("%s: %s tells an address: %s", name, field, v)
					}
				}
				if headers == "off" {
					return
				}
				got := [3]string{r.endpoint(), r.decision(), r.header.Get("X-LLM-Attempts")}
				want := [3]string{at, why, fmt.Sprint(tries)}
				if at == "" || status == http.StatusTooManyRequests && entry["llm_error"] != nil {
					want = [3]string{} // ours, and of no server
				}
				if got != want {
					t.Errorf("%s: the client is told %q, the log %q", name, got, want)
				}
				if matched := r.header.Get("X-LLM-Matched-Tokens"); want[0] != "" && matched != fmt.Sprint(entry["llm_matched_tokens"]) {
					t.Errorf("%s: matched %q by the header, %v in the log", name, matched, entry["llm_matched_tokens"])
				}
			}

			shared := prose("shared", 8000)
			said("whole", g.post(chat(false, shared, "hi")), 200, "a|b", "cold", 1)
			said("a stream", g.post(chat(true, shared, "you")), 200, "a|b", "warm", 1)
			inTurn([]*backend{a, b}, func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) }, answer)
			said("a retried one", g.post(chat(false, "", "again")), 200, "a|b", "cold|only", 2)
			one(answer)
			said("an unknown model", g.post(`{"model":"nobody's","messages":[]}`), 404, "", "", 0)
			one(func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusBadRequest) })
			said("a server's 400", g.post(chat(false, "", "odd")), 400, "a|b", "cold", 1)
			one(func(w http.ResponseWriter, _ *http.Request, _ []byte) { w.WriteHeader(http.StatusInternalServerError) })
			said("all fail", g.post(chat(false, "", "fails")), 500, "a|b", "cold|only", 2)

			// Both are busy: one request waits, and the next has nowhere to.
			open, openB := gate(a), gate(b)
			first, second := g.later(t, chat(true, "", "runs")), g.later(t, chat(true, "", "runs too"))
			eventually(t, "both servers to be busy", func() bool { return g.endpoint("a").Calls+g.endpoint("b").Calls == 2 })
			third := g.later(t, chat(true, "", "waits"))
			eventually(t, "one to wait", func() bool { return g.queued() == 1 })
			full := g.post(chat(true, "", "one too many"))
			said("a refusal", full, 429, "", "", 0)
			open()
			openB()
			arrives(t, "the first answer", first)
			arrives(t, "the second", second)
			waited := arrives(t, "the one that waited", third)
			if wait := waited.header.Get("X-LLM-Queue-Wait"); (wait != "") != (headers == "on") {
				t.Errorf("the client is told that it waited %q", wait)
			}
		})
	}
}
