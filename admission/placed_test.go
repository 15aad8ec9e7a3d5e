package admission

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// placements are the headers of an answer that tell of a placement.
func placements(h http.Header) (names []string) {
	for _, name := range llmlb.PlacedHeaders {
		if len(h[name]) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Sites take headers from answers with header_down, say because how much of a prompt
// was matched is not the clients' business. That once had no effect on what is said of
// placements: it was said behind it.
func TestPlacementsCanBeTakenFromAnswers(t *testing.T) {
	e := newEngine(t, nil)
	for name, tc := range map[string]struct {
		proxy  object
		before []object
	}{
		"header_down": {proxy: object{"headers": object{"response": object{"delete": []string{llmlb.HeaderMatched}}}}},
		"handle_response": {proxy: object{"handle_response": []object{{"routes": []object{{"handle": []object{
			{"handler": "copy_response_headers", "exclude": []string{llmlb.HeaderMatched, "Content-Length"}},
			{"handler": "static_response", "status_code": http.StatusOK},
		}}}}}}},
		"header, in front": {before: []object{{"handler": "headers", "response": object{"deferred": true, "delete": []string{llmlb.HeaderMatched}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, site{upstreams: []string{e.address()}, before: tc.before, proxy: tc.proxy})
			for _, body := range []string{plain, streamed} {
				resp, _ := g.post(chatPath, body)
				want := []string{llmlb.HeaderEndpoint, llmlb.HeaderDecision, llmlb.HeaderAttempts}
				if got := placements(resp.Header); resp.StatusCode != http.StatusOK || !slices.Equal(got, want) {
					t.Errorf("status %d with %v, want %v", resp.StatusCode, got, want)
				}
			}
		})
	}
}

// A server has answered, and the site makes a failure of that. What the client gets
// then is an error of the gateway, and must not look like a server's.
func TestOurOwnErrorsTellOfNoPlacement(t *testing.T) {
	e := newEngine(t, nil)
	for name, proxy := range map[string]object{
		"handle_response": {"handle_response": []object{{"routes": []object{{"handle": []object{
			{"handler": "error", "status_code": http.StatusBadGateway},
		}}}}}},
		"replace_status": {"handle_response": []object{{"status_code": "{no.status}x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, site{upstreams: []string{e.address()}, proxy: proxy})
			resp, body := g.post(chatPath, plain)
			if got := placements(resp.Header); resp.StatusCode < 500 || len(got) > 0 || !strings.Contains(body, `"error"`) {
				t.Errorf("status %d with %v: %s", resp.StatusCode, got, body)
			}
			g.calm()
		})
	}
}
