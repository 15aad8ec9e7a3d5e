package status

import (
	"net/http"
	"os"
	"strings"
	"testing"
)

const withActions = "llm_status /status* {\nallow_actions unguarded\n}\n"

// good is what the page sends.
func good() []string {
	return []string{"Content-Type", "application/json", "Sec-Fetch-Site", "same-origin", tokenHeader, token()}
}

// with returns the headers with one changed, or left out where the value is empty.
func with(headers []string, name, value string) []string {
	var changed []string
	for i := 0; i < len(headers); i += 2 {
		if headers[i] != name {
			changed = append(changed, headers[i], headers[i+1])
		} else if value != "" {
			changed = append(changed, name, value)
		}
	}
	return changed
}

const drainFirst = `{"pool":"default","endpoint":"gpu-1"}`

// An operator drains a server from the page and has it resume. What happened stands
// in the log, with who did it.
func TestActionsDrainAndResume(t *testing.T) {
	s := start(t, withActions)
	if r := s.do(http.MethodPost, "/status/drain", drainFirst, good()...); r.status != http.StatusOK || !strings.Contains(r.body, `"endpoint":"gpu-1"`) {
		t.Fatalf("draining is answered %d %s", r.status, r.body)
	}
	if got := stateOf(t, "gpu-1"); got != "draining" && got != "drained" {
		t.Errorf("after that the server is %q", got)
	}
	if got := stateOf(t, "gpu-2"); got != "up" {
		t.Errorf("the other server is %q, want it left alone", got)
	}
	if r := s.do(http.MethodPost, "/status/resume", drainFirst, good()...); r.status != http.StatusOK {
		t.Fatalf("resuming is answered %d %s", r.status, r.body)
	}
	if got := stateOf(t, "gpu-1"); got != "up" {
		t.Errorf("after resuming the server is %q", got)
	}
	log, err := os.ReadFile(s.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"drained from the status page", "resumed from the status page", `"endpoint":"gpu-1"`, `"remote_addr":"127.0.0.1:`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("the log does not have %s", want)
		}
	}
	if strings.Contains(string(log), token()) {
		t.Error("the log has the token")
	}
}

// Whatever is not the page itself, on behalf of somebody who opened it, changes
// nothing, and is told why.
func TestActionsAreRefused(t *testing.T) {
	s := start(t, withActions)
	wrong := strings.Repeat("0", len(token()))
	for _, c := range []struct {
		name, method, body string
		headers            []string
		status             int
		code               string
	}{
		{"no token", "POST", drainFirst, with(good(), tokenHeader, ""), 403, "bad_token"},
		{"a wrong token", "POST", drainFirst, with(good(), tokenHeader, wrong), 403, "bad_token"},
		{"half a token", "POST", drainFirst, with(good(), tokenHeader, token()[:16]), 403, "bad_token"},
		{"from another site", "POST", drainFirst, with(good(), "Sec-Fetch-Site", "cross-site"), 403, "cross_site"},
		{"from another host of the same site", "POST", drainFirst, with(good(), "Sec-Fetch-Site", "same-site"), 403, "cross_site"},
		{"typed into the address bar", "POST", drainFirst, with(good(), "Sec-Fetch-Site", "none"), 403, "cross_site"},
		{"from no browser, or over plain HTTP", "POST", drainFirst, with(good(), "Sec-Fetch-Site", ""), 403, "no_fetch_site"},
		{"a link", "GET", "", good(), 405, "method_not_allowed"},
		{"another method", "PUT", drainFirst, good(), 405, "method_not_allowed"},
		{"a form", "POST", "pool=default&endpoint=gpu-1", with(good(), "Content-Type", "application/x-www-form-urlencoded"), 415, "bad_order"},
		{"no body", "POST", "", good(), 400, "bad_order"},
		{"no JSON", "POST", "drain gpu-1", good(), 400, "bad_order"},
		{"a field that is not known", "POST", `{"pool":"default","endpoint":"gpu-1","cut":true}`, good(), 400, "bad_order"},
		{"two orders", "POST", drainFirst + drainFirst, good(), 400, "bad_order"},
		{"a long body", "POST", `{"pool":"` + strings.Repeat("x", maxOrder) + `"}`, good(), 400, "bad_order"},
		{"no such pool", "POST", `{"pool":"other","endpoint":"gpu-1"}`, good(), 404, "not_found"},
		{"no such server", "POST", `{"pool":"default","endpoint":"gpu-9"}`, good(), 404, "not_found"},
		{"by its address", "POST", `{"pool":"default","endpoint":"` + s.servers[0].Listener.Addr().String() + `"}`, good(), 404, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := s.do(c.method, "/status/drain", c.body, c.headers...)
			if r.status != c.status || r.code() != c.code {
				t.Errorf("answered %d %q: %s, want %d %q", r.status, r.code(), r.body, c.status, c.code)
			}
			if c.status == 405 && r.header.Get("Allow") != "POST" {
				t.Errorf("Allow is %q, want POST", r.header.Get("Allow"))
			}
			if got := stateOf(t, "gpu-1"); got != "up" {
				t.Errorf("the server is %q after it", got)
			}
		})
	}
}

// Without allow_actions the page only shows: it has no token, and what somebody
// sends who knows it changes nothing.
func TestActionsAreOffUnlessAllowed(t *testing.T) {
	s := start(t, "llm_status /status*\n")
	if r := s.do(http.MethodPost, "/status/drain", drainFirst, good()...); r.status != 403 || r.code() != "actions_off" {
		t.Errorf("answered %d %s, want 403 actions_off", r.status, r.body)
	}
	if got := stateOf(t, "gpu-1"); got != "up" {
		t.Errorf("the server is %q after it", got)
	}
	if r := s.do(http.MethodGet, "/status/", ""); strings.Contains(r.body, "llm-token") || strings.Contains(r.body, token()) {
		t.Error("the page has a token")
	}
}

// What the configuration drains only the configuration resumes.
func TestActionsDoNotResumeWhatTheConfigurationDrains(t *testing.T) {
	s := start(t, withActions+"handle /x {\nllm_proxy 127.0.0.1:1 {\npool other\nendpoint 127.0.0.1:1 {\nname x\ndrain\n}\n}\n}\n")
	r := s.do(http.MethodPost, "/status/resume", `{"pool":"other","endpoint":"x"}`, good()...)
	if r.status != http.StatusConflict || !strings.Contains(r.body, "configuration") {
		t.Errorf("answered %d %s, want 409 that names the configuration", r.status, r.body)
	}
}

func FuzzOrder(f *testing.F) {
	for _, s := range []string{drainFirst, "{}", "[]", `{"pool":"a","pool":"b","endpoint":"c"}`, `{"pool":1}`, drainFirst + " ", "\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := parseOrder(body)
		if (err == nil) != (o.Pool != "" && o.Endpoint != "") {
			t.Errorf("%q gives %+v and the error %v", body, o, err)
		}
	})
}
