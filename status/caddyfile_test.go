package status

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func TestUnmarshalCaddyfile(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"nothing", "llm_status", `{}`},
		{"an empty block", "llm_status {\n}", `{}`},
		{"pools", "llm_status {\npool a b\npool c\n}", `{"pools":["a","b","c"]}`},
		{"everything", "llm_status {\npool a\naddresses\nallow_actions\n}", `{"pools":["a"],"addresses":true,"allow_actions":true}`},
		{"unguarded", "llm_status {\nallow_actions unguarded\n}", `{"allow_actions":true,"unguarded":true}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := new(Handler)
			if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser(c.text)); err != nil {
				t.Fatal(err)
			}
			if got, _ := json.Marshal(h); string(got) != c.want {
				t.Errorf("it becomes %s, want %s", got, c.want)
			}
		})
	}
}

func TestUnmarshalCaddyfileErrors(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an argument", "llm_status now", "argument"},
		{"an unknown option", "llm_status {\npools a\n}", "have pool, addresses, allow_actions"},
		{"no name", "llm_status {\npool\n}", "argument"},
		{"a name twice", "llm_status {\npool a b a\n}", "named twice"},
		{"an option twice", "llm_status {\naddresses\npool a\naddresses\n}", "given twice"},
		{"a value too much", "llm_status {\naddresses on\n}", "argument"},
		{"a word that is not known", "llm_status {\nallow_actions yes\n}", "unguarded"},
		{"two words", "llm_status {\nallow_actions unguarded now\n}", "unguarded"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := new(Handler).UnmarshalCaddyfile(caddyfile.NewTestDispenser(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one that says %q", err, c.want)
			}
		})
	}
}
