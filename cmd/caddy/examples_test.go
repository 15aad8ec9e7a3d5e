package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// examples lists the Caddyfiles of the examples, but for those that bring modules
// of their own: they are tested and validated where those are built in.
func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../../examples/*/Caddyfile")
	if err != nil {
		t.Fatal(err)
	}
	files = slices.DeleteFunc(files, func(file string) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(file), "go.mod"))
		return err == nil
	})
	if len(files) == 0 {
		t.Fatal("no examples")
	}
	return files
}

// Every example can be read as it stands, without a variable set, and is
// formatted as "caddy fmt" would.
func TestExamplesAdapt(t *testing.T) {
	for _, file := range examples(t) {
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

// Who tries an example opens nothing to the network: a site's address alone
// would only say which requests are served, and listen everywhere.
func TestExamplesListenOnLoopbackOnly(t *testing.T) {
	for _, file := range examples(t) {
		t.Run(filepath.Base(filepath.Dir(file)), func(t *testing.T) {
			input, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt(input, map[string]any{"filename": file})
			if err != nil {
				t.Fatal(err)
			}
			var c struct {
				Apps struct {
					HTTP struct {
						Servers map[string]struct {
							Listen []string `json:"listen"`
						} `json:"servers"`
					} `json:"http"`
				} `json:"apps"`
			}
			if err := json.Unmarshal(config, &c); err != nil {
				t.Fatal(err)
			}
			if len(c.Apps.HTTP.Servers) == 0 {
				t.Fatal("no server")
			}
			for name, s := range c.Apps.HTTP.Servers {
				for _, address := range s.Listen {
					if !strings.HasPrefix(address, "127.0.0.1:") {
						t.Errorf("server %s listens on %q", name, address)
					}
				}
			}
		})
	}
}
