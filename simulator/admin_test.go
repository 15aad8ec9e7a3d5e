package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// startWithAdmin runs a simulator and Caddy's admin API, and returns the URLs of
// both. What it returns last loads other options.
func startWithAdmin(t *testing.T, options string) (sim, adminURL string, reload func(options string) error) {
	t.Helper()
	address, adminAddress := freeAddress(t), freeAddress(t)
	reload = func(options string) error {
		return caddy.Load(config(address, fmt.Sprintf(`{"listen": %q, "config": {"persist": false}}`, adminAddress), `"logs": null`, options), true)
	}
	if err := reload(options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = caddy.Stop() })
	return "http://" + address, "http://" + adminAddress + adminPath, reload
}

// tell sends a request to the admin route and returns what it answers.
func tell(t *testing.T, method, url, body string) (int, []byte) {
	t.Helper()
	resp := do(t, t.Context(), method, url, body)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, data
}

// told is tell for a request that succeeds and concerns one server.
func told(t *testing.T, method, url, body string) serverState {
	t.Helper()
	status, data := tell(t, method, url, body)
	var states []serverState
	if err := json.Unmarshal(data, &states); err != nil || status != http.StatusOK || len(states) != 1 {
		t.Fatalf("%s %s: %d %s", method, url, status, data)
	}
	return states[0]
}

// A server is broken and mended while it runs; what is set goes before the
// configuration's faults, also when it is none, until it is deleted.
func TestAdminBreaksAndMends(t *testing.T) {
	sim, url, _ := startWithAdmin(t, `"name": "a", "speed": 50, "faults": [{"fault": "status 500", "every": 2}]`)
	var got []int
	try := func(n int) {
		for range n {
			status, _ := ask(t, sim+"/v1/completions", `{"prompt":"x","max_tokens":1}`)
			got = append(got, status)
		}
	}
	try(2)
	told(t, "PUT", url+"/a", `"status 505"`)
	if s := told(t, "PUT", url+"/a", "status 501\n"); s.SetBy != "admin" || len(s.Faults) != 1 || s.Faults[0].Fault != "status 501" {
		t.Errorf("after a string: %+v", s)
	}
	try(1)
	told(t, "PUT", url+"/a", `{"fault": "status 502", "first": 1}`)
	try(2)
	told(t, "PUT", url, `["status 503", {"fault": "status 504"}]`)
	try(1)
	if s := told(t, "PUT", url+"/a", `[]`); s.SetBy != "admin" || len(s.Faults) != 0 {
		t.Errorf("after none: %+v", s)
	}
	try(2)
	if s := told(t, "DELETE", url+"/a", ""); s.SetBy != "configuration" || len(s.Faults) != 1 {
		t.Errorf("after the end: %+v", s)
	}
	try(2)
	if want := fmt.Sprint([]int{200, 500, 501, 502, 200, 503, 200, 200, 200, 500}); fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	s := told(t, "GET", url, "")
	if s.Name != "a" || s.Model != "sim" || s.Requests != 10 || s.Hit != 5 || s.ByHeader != 0 || s.Open != 0 || s.ClientLeft != 0 {
		t.Errorf("counted %+v", s)
	}
	if f := s.Faults[0]; f.Asked != 4 || f.Hit != 2 || f.Every != 2 {
		t.Errorf("the fault counted %+v", f)
	}
}

// Faults may look for a text, so that two clients can share a broken server.
func TestMatch(t *testing.T) {
	sim := start(t, `"speed": 50, "faults": [{"fault": "status 500", "match": "break me"}, {"fault": "refuse", "match": "nobody says so"}]`)
	for body, want := range map[string]int{
		`{"prompt":"please break me","max_tokens":1}`:                                                                  500,
		`{"prompt":"please","max_tokens":1}`:                                                                           200,
		`{"messages":[{"role":"user","content":"x"},{"role":"user","content":"break me"}],"max_tokens":1}`:             500,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"break me"}]}],"max_tokens":1}`:                  500,
		`{"messages":[{"role":"user","content":"break me"},{"role":"user","content":"or rather not"}],"max_tokens":1}`: 200,
		`{"messages":"break me"}`: 400,
	} {
		path := "/v1/chat/completions"
		if strings.Contains(body, "prompt") {
			path = "/v1/completions"
		}
		if status, _ := ask(t, sim+path, body); status != want {
			t.Errorf("%s: %d, want %d", body, status, want)
		}
	}
}

// Clients that leave a silent server are seen to have left.
func TestClientsThatLeaveAreCounted(t *testing.T) {
	sim, url, _ := startWithAdmin(t, `"name": "a", "speed": 50`)
	for _, fault := range []string{"silence", "headers_silence", "stall_after 2", "slow_first_token 1h", "trickle 1h"} {
		told(t, "PUT", url, `"`+fault+`"`)
		before := told(t, "GET", url, "")
		ctx, leave := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			req, _ := http.NewRequestWithContext(ctx, http.MethodPost, sim+"/v1/completions", strings.NewReader(streamed))
			if resp, err := http.DefaultClient.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		eventually(t, fault+" begins", func() bool { return told(t, "GET", url, "").Open == 1 })
		leave()
		<-ended
		eventually(t, fault+" ends", func() bool {
			s := told(t, "GET", url, "")
			return s.Open == 0 && s.ClientLeft == before.ClientLeft+1 && s.Requests == before.Requests+1
		})
	}
	// A scrape that is given up is no request that generates.
	told(t, "PUT", url, `{"fault": "silence", "everything": true}`)
	before := told(t, "GET", url, "")
	ctx, leave := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer leave()
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, sim+"/metrics", nil)
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
		t.Error("a frozen server told its metrics")
	}
	if s := told(t, "GET", url, ""); s.Requests != before.Requests || s.ClientLeft != before.ClientLeft {
		t.Errorf("a scrape was counted: %+v", s)
	}
}

// What was set live, and how far a configured fault had come, survives a reload,
// also one that fails; another engine is another server.
func TestFaultsSurviveReload(t *testing.T) {
	const same = `"name": "a", "speed": 50, "faults": [{"fault": "status 500", "first": 2}]`
	sim, url, reload := startWithAdmin(t, same)
	status := func() int {
		code, _ := ask(t, sim+"/v1/completions", `{"prompt":"x","max_tokens":1}`)
		return code
	}
	if got := status(); got != 500 {
		t.Fatal(got)
	}
	if err := reload(same); err != nil {
		t.Fatal(err)
	}
	if a, b := status(), status(); a != 500 || b != 200 {
		t.Errorf("%d, %d after the reload; the fault forgot its first request", a, b)
	}
	told(t, "PUT", url+"/a", `"status 503"`)
	if err := reload(`"name": "a", "speed": 50, "faults": ["status 504"]`); err != nil {
		t.Fatal(err)
	}
	if err := reload(`"name": "a", "faults": ["explode"]`); err == nil || !strings.Contains(err.Error(), `checking faults: unknown fault "explode"`) {
		t.Errorf("a fault that does not exist: %v", err)
	}
	if got := status(); got != 503 {
		t.Errorf("%d: what was set live is lost", got)
	}
	s := told(t, "DELETE", url, "")
	if got := status(); got != 504 || len(s.Faults) != 1 || s.Faults[0].Fault != "status 504" {
		t.Errorf("%d, %+v: not the new configuration's fault", got, s)
	}
	// The old one is forgotten, and begins anew if it comes back.
	if err := reload(same); err != nil {
		t.Fatal(err)
	}
	if got := status(); got != 500 {
		t.Errorf("%d after the fault came back", got)
	}
	told(t, "PUT", url, `"status 503"`)
	if err := reload(`"name": "a", "speed": 49`); err != nil {
		t.Fatal(err)
	}
	if s := told(t, "GET", url+"/a", ""); s.SetBy != "configuration" || s.Requests != 0 {
		t.Errorf("a server with other options has %+v", s)
	}
}

// Mistakes are told and change nothing; nobody changes anything by asking, or
// from another site's page.
func TestAdminRefuses(t *testing.T) {
	_, url, _ := startWithAdmin(t, `"name": "a"`)
	told(t, "PUT", url, `"reset"`)
	for _, tc := range []struct {
		method, path, body string
		status             int
		has                string
	}{
		{"PUT", "/a", ``, 400, `the body is empty; send a fault, such as cut_after 3`},
		{"PUT", "/a", `explode`, 400, `unknown fault \"explode\"`},
		{"PUT", "/a", `["silence"`, 400, "unexpected end of JSON"},
		{"PUT", "/a", `5`, 400, "neither a fault nor a list"},
		{"PUT", "/a", `null`, 400, "neither a fault nor a list"},
		{"PUT", "/a", `"explode"`, 400, `unknown fault \"explode\"; have refuse`},
		{"PUT", "/a", `["silence", "cut_after"]`, 400, "write cut_after"},
		{"PUT", "/a", `{"faults": []}`, 400, "unknown field"},
		{"PUT", "/a", `{"fault": "silence", "rate": 2}`, 400, "rate is 2"},
		{"PUT", "/a", `["silence", "silence"]`, 400, "given twice"},
		{"PUT", "/a", `"` + strings.Repeat(" ", maxAdminBody) + `"`, 400, "too large"},
		{"PUT", "/b", `"silence"`, 404, `there is no simulated server \"b\"; have a`},
		{"DELETE", "/b", ``, 404, "have a"},
		{"GET", "/a/b", ``, 404, "have a"},
		{"GET", "?name=a", ``, 400, "in the path"},
		{"POST", "/a", `"silence"`, 405, "have GET, PUT, DELETE"},
		{"PATCH", "", `"silence"`, 405, "have GET, PUT, DELETE"},
	} {
		status, data := tell(t, tc.method, url+tc.path, tc.body)
		if status != tc.status || !strings.Contains(string(data), tc.has) {
			t.Errorf("%s %s %.40s: %d %s", tc.method, tc.path, tc.body, status, data)
		}
	}
	req, _ := http.NewRequest(http.MethodPut, url, strings.NewReader(`"silence"`))
	req.Header.Set("Origin", "http://elsewhere.example")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("another site's page got %d", resp.StatusCode)
	}
	if s := told(t, "GET", url, ""); len(s.Faults) != 1 || s.Faults[0].Fault != "reset" {
		t.Errorf("a refused request changed the faults to %+v", s.Faults)
	}
}

// A fault leaves no goroutine behind once its client is gone.
func TestFaultsLeaveNoGoroutine(t *testing.T) {
	sim := start(t, `"speed": 50`)
	before := runtime.NumGoroutine()
	for fault := range strings.SplitSeq(faultNames, ", ") {
		switch _, args, _ := strings.Cut(faultForms[fault], " "); {
		case strings.HasPrefix(args, "<tokens>"):
			fault += " 2"
		case strings.HasPrefix(args, "<duration>"):
			fault += " 1h"
		case strings.HasPrefix(args, "<400"):
			fault += " 503"
		case args == "[reused]":
			fault += " reused"
		}
		for _, body := range []string{streamed, inOne} {
			c := dial(t, sim)
			c.request(fault, body)
			// Until the fault is in its midst; some say nothing at all.
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			_, _ = c.r.Peek(1)
			c.Close()
		}
	}
	eventually(t, "the end of all goroutines", func() bool { return runtime.NumGoroutine() <= before })
}
