package caddyfile

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

var update = flag.Bool("update", false, "write the expected part of the golden files anew")

const divider = "----------"

// Each file is a Caddyfile, a divider, and what it adapts to: JSON, or the
// error an operator reads.
func TestAdapt(t *testing.T) {
	files, err := filepath.Glob("testdata/*.caddyfiletest")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no golden files")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".caddyfiletest"), func(t *testing.T) {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, found := strings.Cut(string(content), divider+"\n")
			if !found {
				t.Fatalf("no line %q", divider)
			}
			got := adapted(t, input)
			if *update {
				if err := os.WriteFile(file, []byte(input+divider+"\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("adapting gives\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// adapted returns the indented JSON, or the error's text.
func adapted(t *testing.T, input string) string {
	t.Helper()
	cfg, err := adapt(input)
	if err != nil {
		return err.Error() + "\n"
	}
	var b bytes.Buffer
	if err := json.Indent(&b, cfg, "", "\t"); err != nil {
		t.Fatal(err)
	}
	b.WriteByte('\n')
	return b.String()
}

func adapt(input string) ([]byte, error) {
	cfg, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(input), map[string]any{"filename": "Caddyfile"})
	return cfg, err
}

// validate does what "caddy validate" does with a Caddyfile.
func validate(t *testing.T, input string) error {
	t.Helper()
	return validateWith(t, "", input)
}

// validateWith does so with more global options.
func validateWith(t *testing.T, global, input string) error {
	t.Helper()
	cfg, err := adapt("{\n\tadmin off\n" + global + "\n}\n" + input)
	if err != nil {
		return err
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(cfg, &c); err != nil {
		t.Fatalf("the adapted JSON cannot be read: %v", err)
	}
	return caddy.Validate(&c)
}
