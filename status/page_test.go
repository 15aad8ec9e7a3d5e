package status

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The library lies here as it was published: as uplot 1.6.32 on the npm registry,
// which web/uplot/fetch.sh fetches.
func TestPlotLibraryIsAsPublished(t *testing.T) {
	for name, want := range map[string]string{
		"uplot.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
		"LICENSE":   "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
	} {
		body, err := web.ReadFile("web/uplot/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s has the hash %x, want %s; web/uplot/fetch.sh brings the published one", name, sum, want)
		}
	}
}

// The page works below whatever path it is put: it is led to where its relative
// addresses are right, and finds its files there.
func TestPageStandsBelowAnyPath(t *testing.T) {
	s := start(t, "handle /plain* {\nllm_status\n}\nhandle_path /cut/off* {\nllm_status\n}\nllm_status /status*\n")
	for from, to := range map[string]string{
		"/plain": "./plain/", "/cut/off": "./off/", "/status": "./status/", "/status/deep?x=1": "./deep/?x=1",
		"/plain/javascript:alert(1)": "./javascript:alert%281%29/", "/plain//evil": "./evil/",
	} {
		r := s.do(http.MethodGet, from, "")
		if got := r.header.Get("Location"); r.status != http.StatusPermanentRedirect || !sameAddress(got, to) {
			t.Errorf("%s is answered %d to %q, want 308 to %q", from, r.status, got, to)
		}
	}
	for _, at := range []string{"/plain/", "/cut/off/", "/status/"} {
		r := s.do(http.MethodGet, at, "")
		if r.status != http.StatusOK || !strings.Contains(r.body, "<title>LLM pools</title>") {
			t.Fatalf("%s is answered %d %.100s", at, r.status, r.body)
		}
		for _, m := range regexp.MustCompile(`(?:href|src)="([^"#]+)"`).FindAllStringSubmatch(r.body, -1) {
			if f := s.do(http.MethodGet, at+m[1], ""); f.status != http.StatusOK {
				t.Errorf("%s names %s, which is answered %d", at, m[1], f.status)
			}
		}
	}
}

func sameAddress(a, b string) bool {
	plain := strings.NewReplacer("%28", "(", "%29", ")")
	return plain.Replace(a) == plain.Replace(b)
}

// Every module that a script imports is there.
func TestScriptsImportWhatIsThere(t *testing.T) {
	for name, a := range assets {
		for _, m := range regexp.MustCompile(`from '\./([^']+)'`).FindAllSubmatch(a.body, -1) {
			if _, ok := assets[string(m[1])]; !ok {
				t.Errorf("%s imports %s, which is not there", name, m[1])
			}
		}
	}
}

// Whatever is asked for, a browser keeps no copy, takes nothing from elsewhere, runs
// nothing that stands in the page, and puts the page into no frame.
func TestEveryAnswerIsGuarded(t *testing.T) {
	s := start(t, "llm_status /status*\n")
	for _, path := range []string{"/status", "/status/", "/status/main.js", "/status/page.css", "/status/pools", "/status/history", "/status/drain", "/status/nothing.txt"} {
		h := s.do(http.MethodGet, path, "").header
		policy := h.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "unsafe") {
			t.Errorf("%s: the policy allows what is unsafe: %s", path, policy)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
			if got := h.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
	}
	body := s.do(http.MethodGet, "/status/", "").body
	if regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`).MatchString(body) {
		t.Error("the page has a script, a style or an address in it that the policy does not allow")
	}
}

// Only GET and HEAD are answered where there is nothing to change.
func TestOtherMethodsAreRefused(t *testing.T) {
	s := start(t, "llm_status /status*\n")
	for _, path := range []string{"", "main.js", "events", "pools", "history", "nothing"} {
		r := s.do(http.MethodPost, "/status/"+path, "x=1")
		if r.status != http.StatusMethodNotAllowed || r.header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %q is answered %d with Allow %q", path, r.status, r.header.Get("Allow"))
		}
	}
	for path, status := range map[string]int{"": 200, "main.js": 200, "events": 200, "pools": 200, "nothing.txt": 404} {
		r := s.do(http.MethodHead, "/status/"+path, "")
		if r.status != status || r.body != "" {
			t.Errorf("HEAD %q is answered %d with %q, want %d and no body", path, r.status, r.body, status)
		}
	}
}

// The token of the buttons is random, and stays the same over a reload, so that a
// page which is open can go on to act.
func TestTokenIsOneOfTheProcess(t *testing.T) {
	s := start(t, withActions)
	r := s.do(http.MethodGet, "/status/", "")
	if want := fmt.Sprintf(`<meta name="llm-token" content="%s">`, token()); !strings.Contains(r.body, want) {
		t.Error("the page does not have the token")
	}
	s.load(withActions)
	if again := s.do(http.MethodGet, "/status/", "").body; again != r.body {
		t.Error("the token changed with a reload: a page that is open could act no more")
	}
	if len(token()) != 32 || token() == boot() {
		t.Errorf("the token is %q, want 128 random bits that nothing else tells", token())
	}
}
