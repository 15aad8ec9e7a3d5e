package status

import (
	"os"
	"strings"
	"testing"
)

// Loading warns of a page with buttons that anybody may press, and does not where an
// authentication is seen before it.
func TestActionsWithoutAuthenticationWarn(t *testing.T) {
	const (
		page  = "llm_status /status* {\nallow_actions\n}\n"
		users = "{\nbob $2a$14$Zkx19XLiW6VYouLHR5NmfOFU0z2GTNmpkT/5qqR7hx4IjWJPDhjvG\n}\n"
		ask   = "forward_auth /status* 127.0.0.1:1 {\nuri /check\n}\n"
	)
	for _, c := range []struct {
		name, directives string
		warns            bool
	}{
		{"no authentication", page, true},
		{"no actions", "llm_status /status*\n", false},
		{"none is wanted", "llm_status /status* {\nallow_actions unguarded\n}\n", false},
		{"basic_auth for the site", "basic_auth " + users + page, false},
		{"basic_auth for the page", "basic_auth /status* " + users + page, false},
		{"basic_auth for the page, another directive between", "basic_auth /status* " + users + "encode gzip\n" + page, false},
		{"basic_auth for something else", "basic_auth /elsewhere* " + users + page, true},
		{"basic_auth within handle", "handle /status* {\nbasic_auth " + users + "llm_status {\nallow_actions\n}\n}\n", false},
		{"basic_auth around handle", "basic_auth " + users + "handle /status* {\nllm_status {\nallow_actions\n}\n}\n", false},
		{"basic_auth in another handle", "handle /a* {\nbasic_auth " + users + "}\nhandle /status* {\nllm_status {\nallow_actions\n}\n}\n", true},
		{"basic_auth behind it", "route {\n" + page + "basic_auth " + users + "}\n", true},
		{"basic_auth before it, in its route", "route {\nbasic_auth " + users + page + "}\n", false},
		{"forward_auth", ask + page, false},
		{"a reverse_proxy that asks nobody", "reverse_proxy /a* 127.0.0.1:1\n" + page, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, c.directives)
			log, err := os.ReadFile(s.log)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if got := strings.Contains(string(log), "no authentication is seen before it"); got != c.warns {
				t.Errorf("it warns: %v, want %v", got, c.warns)
			}
		})
	}
}
