package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// Every example can be read as it stands, without a variable set, and is
// formatted as "caddy fmt" would.
func TestExamplesAdapt(t *testing.T) {
	files, err := filepath.Glob("../../examples/*/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	for _, file := range files {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			input, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			_, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt(input, map[string]any{"filename": file})
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range warnings {
				t.Error(w.String())
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(file), "README.md")); err != nil {
				t.Errorf("the example does not explain itself: %v", err)
			}
		})
	}
}
