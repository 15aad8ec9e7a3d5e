package caddyfile

import (
	"os"
	"strings"
	"testing"

	_ "github.com/caddy-llmlb/caddy-llmlb/status" // whose directive is written of too
)

// The shorthand stands for exactly what the reference says it stands for, so
// that somebody who outgrows it can write it out and keep the same gateway.
func TestShorthandEqualsWhatTheReferenceWritesOut(t *testing.T) {
	reference := read(t, "../docs/caddyfile.md")
	_, section, _ := strings.Cut(reference, "\nEvery line of the block is optional, and so is the block:\n")
	short := fenced(t, section)
	_, section, _ = strings.Cut(reference, "\n## What `llm_proxy` stands for\n")
	written := fenced(t, section)
	if got, want := adapted(t, short), adapted(t, written); got != want {
		t.Errorf("the shorthand adapts to\n%s\nwhat the reference writes out adapts to\n%s", got, want)
	}
}

// An option that is not in the reference does not exist for its users.
func TestReferenceHasEveryOption(t *testing.T) {
	reference := read(t, "../docs/caddyfile.md")
	for _, name := range optionNames() {
		if !strings.Contains(reference, "\n### `"+name+"`\n") {
			t.Errorf("docs/caddyfile.md has no section for %q", name)
		}
	}
	for name := range refused {
		if !strings.Contains(reference, "`"+name+"`") {
			t.Errorf("docs/caddyfile.md does not say that %q is refused", name)
		}
	}
}

// Whoever copies a whole configuration out of the documentation gets one that
// Caddy takes.
func TestWholeConfigurationsInTheDocumentationValidate(t *testing.T) {
	for _, name := range []string{"KEY_ALICE", "KEY_BOB", "LLM_API_KEY"} {
		t.Setenv(name, "k")
	}
	for _, file := range []string{"../README.md", "../docs/caddyfile.md", "../docs/admission.md", "../docs/monitoring.md", "../docs/failover.md", "../docs/health.md", "../docs/status.md"} {
		found := 0
		for i, block := range strings.Split(read(t, file), "\n```") {
			if i%2 == 0 {
				continue // text between two blocks
			}
			_, config, _ := strings.Cut(block, "\n")
			if !strings.HasPrefix(config, "llm.example.com {\n") && !strings.HasPrefix(config, "{\n\tlog ") {
				continue
			}
			found++
			config = strings.ReplaceAll(config, "/var/log/caddy", t.TempDir())
			global, site := "", config
			if options, ok := strings.CutPrefix(config, "{\n"); ok {
				global, site = strings.TrimSuffix(options, "}"), ""
			}
			// Only the site's port is another, so that no certificate is asked for.
			site = strings.Replace(site, "llm.example.com {", "http://:8080 {", 1)
			if err := validateWith(t, global, site); err != nil {
				t.Errorf("%s: %v in\n%s", file, err, config)
			}
		}
		if found == 0 && file != "../docs/monitoring.md" {
			t.Errorf("%s has no whole configuration", file)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// fenced returns the first code block.
func fenced(t *testing.T, text string) string {
	t.Helper()
	_, after, ok := strings.Cut(text, "```\n")
	code, _, ok2 := strings.Cut(after, "```\n")
	if !ok || !ok2 {
		t.Fatal("no code block")
	}
	return code
}
