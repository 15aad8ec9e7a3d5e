package main

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

func TestCommandLine(t *testing.T) {
	for _, c := range []struct {
		args  string
		cells int
		wrong string
	}{
		{"", 30, ""},
		{"-api chat,completions -endpoints 2,64 -prompts 1 -goroutines 1 -rounds 1", 4, ""},
		{"-goroutines 16 -prompts 1024 -endpoints 2", 1, ""},
		// It used to end in a lack of memory.
		{"-prompts 999999999", 0, "-prompts 999999999: 999999999 is not between 1 and 1024"},
		{"-prompts 1,99999999999999999999", 0, `"99999999999999999999" is no number`},
		{"-prompts 1024 -goroutines 256", 0, "256 goroutines with prompts of 1024 KB: that is more than 16 MB at once"},
		{"-endpoints 1", 0, "-endpoints 1: 1 is not between 2 and 4096"},
		{"-endpoints 2,", 0, `-endpoints 2,: "" is no number; have numbers with commas between them`},
		{"-goroutines 2;4", 0, `"2;4" is no number`},
		{"-rounds 0", 0, "-rounds 0: there can be 1 to 1000"},
		{"-warm-up -1", 0, "-warm-up -1: it can be 0 to"},
		{"-api grpc", 0, `no dialect is called "grpc"; there are chat and completions`},
		{"chat", 0, `what is "chat"?`},
	} {
		o, err := parse(strings.Fields(c.args))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%q: %v, want %q", c.args, err, c.wrong)
			continue
		}
		if err == nil && len(o.cells) != c.cells {
			t.Errorf("%q: %d cells, want %d", c.args, len(o.cells), c.cells)
		}
		if status := command.Status(err); err != nil && status != 2 {
			t.Errorf("%q: exit status %d, want 2", c.args, status)
		}
	}
}
