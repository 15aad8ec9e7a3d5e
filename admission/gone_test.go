package admission

import (
	"errors"
	"net/http/httptest"
	"testing"
)

// Over HTTP/3 a client that leaves as its body is read is known by the broken
// stream, before the request's context ends. It has not sent a wrong request.
func TestABrokenStreamIsAClientThatLeft(t *testing.T) {
	for _, tc := range []struct {
		major int
		code  string
	}{{1, "body_unreadable"}, {2, "body_unreadable"}, {3, codeClientGone}} {
		r := httptest.NewRequest("POST", "/v1/chat/completions", nil)
		r.ProtoMajor = tc.major
		if f := new(Handler).unread(r, errors.New("H3_REQUEST_CANCELLED")); f.code != tc.code {
			t.Errorf("HTTP/%d: %s, want %s", tc.major, f.code, tc.code)
		}
	}
}
