package e2e

import (
	"fmt"
	"net/http"
	"testing"
)

// An answer is on its way, the body is given up, and then the site itself makes a
// failure of the answer. Nothing is sent again: it could only be a request without
// its body, and a second generation.
func TestAnAnswerTurnedIntoAFailureIsNotAskedForAgain(t *testing.T) {
	for name, site := range map[string]string{
		"handle_response, after a server that is gone": "llm_proxy %[1]s %[2]s {\nengine none\nqueue {\nmax_wait 1s\n}\nhandle_response {\nerror 503\n}\n}\n",
		"lb_retry_match": "llm_admission {\npool p\n}\nreverse_proxy %[2]s %[3]s {\nlb_policy llm {\npool p\nengine none\n}\ntransport llm\nlb_retries 2\n" +
			"lb_retry_match {\nexpression `{rp.status_code} == 200`\n}\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			g := start(t, fmt.Sprintf(site, freeAddr(t), a.addr(), b.addr()))
			for i := range 6 { // the first may not meet the server that is gone
				body := distinct(i)
				before := a.count() + b.count()
				if r := g.post(body); r.status == http.StatusBadGateway {
					t.Errorf("status %d: %s", r.status, r.body)
				}
				if n := a.count() + b.count() - before; n != 1 {
					t.Errorf("%d requests reached the servers, want 1", n)
				}
			}
			for _, server := range []*backend{a, b} {
				for _, body := range server.bodies {
					if len(body) == 0 {
						t.Error("a request came without its body")
					}
				}
			}
			if e := g.outcomes()["engine_error"]; e > 0 {
				t.Errorf("%d attempts count against servers that did nothing wrong", e)
			}
		})
	}
}
