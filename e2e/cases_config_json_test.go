package e2e

import (
	"encoding/json"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/admission"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/transport"
)

// beside is what an object, or an element of a list, needs besides the option in
// question.
var beside = map[string]map[string]any{
	"canary":        {"interval": "10s"},
	"endpoints":     {"upstream": "10.4.0.11:8000"},
	"classes":       {"name": "a"},
	"tenant_limits": {"tenant": "acme"},
}

// numbers returns the paths of all options of a module that are numbers or times,
// in JSON. What Caddy's own modules bring along is theirs.
func numbers(t reflect.Type, path ...string) (list [][]string) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" || name == "-" || field.Anonymous {
			continue
		}
		kind := field.Type
		if kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			kind = kind.Elem()
		}
		inner := append(slices.Clip(path), name)
		switch kind.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
			list = append(list, inner)
		case reflect.Struct:
			if field.Type.Kind() != reflect.Slice || beside[name] != nil {
				list = append(list, numbers(kind, inner...)...)
			}
		}
	}
	return list
}

// valued is the object that has the value at the path.
func valued(path []string, value any) map[string]any {
	if len(path) == 1 {
		return map[string]any{path[0]: value}
	}
	inner := maps.Clone(beside[path[0]])
	if inner == nil {
		inner = make(map[string]any)
	}
	maps.Copy(inner, valued(path[1:], value))
	if path[0] != "canary" && beside[path[0]] != nil {
		return map[string]any{path[0]: []any{inner}}
	}
	return map[string]any{path[0]: inner}
}

// No number below zero is taken from a JSON configuration either, which no
// Caddyfile has read: "caddy validate" names the option.
func TestNoNumberBelowZeroIsTakenFromJSON(t *testing.T) {
	// validate checks a configuration whose modules have these options as well.
	validate := func(t *testing.T, policy, handler, carrier map[string]any) error {
		t.Helper()
		module := func(key, name string, options map[string]any) map[string]any {
			all := map[string]any{key: name}
			maps.Copy(all, options)
			return all
		}
		text, err := json.Marshal(map[string]any{
			"admin": map[string]any{"disabled": true},
			"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"main": map[string]any{
				"listen": []string{"127.0.0.1:8080"},
				"routes": []any{map[string]any{"handle": []any{
					module("handler", "llm_admission", handler),
					map[string]any{
						"handler":        "reverse_proxy",
						"upstreams":      []any{map[string]any{"dial": "10.4.0.11:8000"}, map[string]any{"dial": "10.4.0.12:8000"}},
						"transport":      module("protocol", "llm", carrier),
						"load_balancing": map[string]any{"selection_policy": module("policy", "llm", policy)},
					},
				}}},
			}}}},
		})
		if err != nil {
			t.Fatal(err)
		}
		var c caddy.Config
		if err := caddy.StrictUnmarshalJSON(text, &c); err != nil {
			t.Fatal(err)
		}
		return caddy.Validate(&c)
	}
	if err := validate(t, nil, map[string]any{"tenant": "{http.auth.user.id}"}, nil); err != nil {
		t.Fatalf("without any of them: %v", err)
	}
	for module, of := range map[string]struct {
		options [][]string
		check   func(t *testing.T, options map[string]any) error
	}{
		"policy": {numbers(reflect.TypeFor[selection.Policy]()), func(t *testing.T, options map[string]any) error {
			return validate(t, options, nil, nil)
		}},
		"handler": {numbers(reflect.TypeFor[admission.Handler]()), func(t *testing.T, options map[string]any) error {
			options["tenant"] = "{http.auth.user.id}"
			return validate(t, nil, options, nil)
		}},
		"transport": {numbers(reflect.TypeFor[transport.Transport]()), func(t *testing.T, options map[string]any) error {
			return validate(t, nil, nil, options)
		}},
	} {
		if len(of.options) < 3 {
			t.Errorf("%s has only %v", module, of.options)
		}
		for _, path := range of.options {
			t.Run(module+" "+strings.Join(path, "."), func(t *testing.T) {
				err := of.check(t, valued(path, -1))
				// Where the Caddyfile has one option for two fields, by its name there.
				name := regexp.MustCompile(`_(min|max|concurrent)$`).ReplaceAllString(path[len(path)-1], "")
				switch {
				case err == nil:
					t.Error("-1 is accepted")
				case !strings.Contains(err.Error(), name):
					t.Errorf("the error does not name the option: %v", err)
				}
			})
		}
	}
}
