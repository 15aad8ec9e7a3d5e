package admission

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Whoever does not trace pays nothing for it.
func TestWithoutATraceNothingIsDone(t *testing.T) {
	x := &exchange{
		request: httptest.NewRequestWithContext(t.Context(), "POST", "/v1/chat/completions", nil),
		call:    llmlb.NewCall(llmlb.NewPool("p"), nil, time.Now()),
	}
	if n := testing.AllocsPerRun(100, x.trace); n > 0 {
		t.Errorf("%v allocations without a span", n)
	}
}

// What a client sends is cut, and is text that can be shown.
func TestTextOfSpans(t *testing.T) {
	for text, want := range map[string]string{
		"llama-3":                      "llama-3",
		"a\x00b\x1b[31m\u202ec\nd":     "ab[31mcd",
		"\xff\xfe":                     "",
		strings.Repeat("A", 300):       strings.Repeat("A", 256),
		strings.Repeat("A", 255) + "é": strings.Repeat("A", 255),
	} {
		got := spanText(text)
		if got != want || !utf8.ValidString(got) {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
