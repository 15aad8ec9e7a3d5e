package simulator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// handlers adapts a Caddyfile and returns the simulators in it as JSON.
func handlers(t *testing.T, text string) ([]string, error) {
	t.Helper()
	adapted, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return nil, err
	}
	var config any
	if err := json.Unmarshal(adapted, &config); err != nil {
		t.Fatal(err)
	}
	var found []string
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if v["handler"] == "llm_simulator" {
				data, err := json.Marshal(v) // sorted keys
				if err != nil {
					t.Fatal(err)
				}
				found = append(found, string(data))
				return
			}
			for _, key := range []string{"apps", "http", "servers", "srv0", "srv1", "srv2", "routes", "handle"} {
				if child, ok := v[key]; ok {
					walk(child)
				}
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(config)
	return found, nil
}

// Options become their JSON twins, nothing is added but a name.
func TestCaddyfile(t *testing.T) {
	for _, tc := range []struct {
		name, text string
		want       []string
	}{
		{"nothing set", `:9001 {
			llm_simulator
		}`, []string{`{"handler":"llm_simulator","name":"sim-1"}`}},
		{"everything set", `:9001 {
			llm_simulator {
				engine             70b-h100x4
				model              llama
				name               gpu-7
				speed              2.5
				max_seqs           32
				kv_tokens          100000
				max_batched_tokens 4096
				reply_tokens       50
			}
		}`, []string{`{"engine":"70b-h100x4","handler":"llm_simulator","kv_tokens":100000,"max_batched_tokens":4096,"max_seqs":32,"model":"llama","name":"gpu-7","reply_tokens":50,"speed":2.5}`}},
		{"servers without a name are told apart", `:9001 {
			llm_simulator
		}
		:9002 {
			llm_simulator {
				name mine
			}
		}
		:9003 {
			llm_simulator {
				speed 10
			}
		}`, []string{
			`{"handler":"llm_simulator","name":"sim-1"}`,
			`{"handler":"llm_simulator","name":"mine"}`,
			`{"handler":"llm_simulator","name":"sim-3","speed":10}`,
		}},
		{"faults in their order", `:9001 {
			llm_simulator {
				fault refuse {
					first 2
				}
				speed 10
				fault status 503 retry_after 2 {
					rate 0.25
					match "break me"
				}
				fault status 503 retry_after 2
				fault silence {
					everything
				}
				fault cut_after 3 {
					every 5
				}
			}
		}`, []string{`{"faults":[{"fault":"refuse","first":2},{"fault":"status 503 retry_after 2","match":"break me","rate":0.25},` +
			`{"fault":"status 503 retry_after 2"},{"everything":true,"fault":"silence"},{"every":5,"fault":"cut_after 3"}],"handler":"llm_simulator","name":"sim-1","speed":10}`}},
		{"with a matcher and before reverse_proxy", `:9001 {
			reverse_proxy 127.0.0.1:1
			llm_simulator /v1/*
		}`, []string{`{"handler":"llm_simulator","name":"sim-1"}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := handlers(t, tc.text)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Join(got, "\n") != strings.Join(tc.want, "\n") {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tc.want, "\n"))
			}
		})
	}
}

// Errors name the option, the value and the line.
func TestCaddyfileErrors(t *testing.T) {
	for _, tc := range []struct{ block, want string }{
		{"colour red", "unknown option 'colour'; have engine, model, name, speed, max_seqs, kv_tokens, max_batched_tokens, reply_tokens, fault, at Caddyfile:3"},
		{"speed", "wrong argument count or unexpected line ending after 'speed', at Caddyfile:3"},
		{"speed 1 2", "wrong argument count"},
		{"speed fast", "parsing speed 'fast': want a number above 0 and up to 1000, at Caddyfile:3"},
		{"speed 0", "parsing speed '0'"},
		{"speed NaN", "parsing speed 'NaN'"},
		{"max_seqs 1.5", "parsing max_seqs '1.5': want a whole number of at least 1"},
		{"kv_tokens -3", "parsing kv_tokens '-3'"},
		{"max_batched_tokens x", "parsing max_batched_tokens 'x'"},
		{"reply_tokens 0", "parsing reply_tokens '0'"},
		{"engine abacus", `checking engine "abacus": unknown; have 8b-h100, 8b-a100, 70b-h100x4, 70b-h100x8, 32b-h100x2, at Caddyfile:`},
		{`name "a b"`, `checking name "a b"`},
		{`model ""`, "value is empty"},
		{"fault", "wrong argument count or unexpected line ending after 'fault'"},
		{"fault explode", `unknown fault "explode"; have refuse, reset`},
		{"fault cut_after", "the number of tokens is missing; write cut_after <tokens>, at Caddyfile:3"},
		{"fault reset {\nrate 0\n}", "parsing rate '0': want a share above 0 and up to 1, at Caddyfile:4"},
		{"fault reset {\nrate NaN\n}", "parsing rate 'NaN'"},
		{"fault reset {\nevery 0\n}", "parsing every '0': want a whole number of at least 1"},
		{"fault reset {\nfirst\n}", "wrong argument count"},
		{"fault reset {\nfirst 1\nfirst 2\n}", "condition 'first' is given twice, at Caddyfile:5"},
		{"fault reset {\noften\n}", "unknown condition 'often'; have rate, every, first, match, everything"},
		{"fault silence {\neverything yes\n}", "wrong argument count"},
		{"fault reset {\nevery 2\nrate 0.5\n}", "give one"},
		{"fault reset\nfault reset", "given twice with the same conditions"},
		{"speed 1\nspeed 2", "option 'speed' is given twice, at Caddyfile:4"},
	} {
		_, err := handlers(t, ":9001 {\n llm_simulator {\n"+tc.block+"\n}\n}")
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %v, want %s", tc.block, err, tc.want)
		}
	}
	if _, err := handlers(t, ":9001 {\nllm_simulator a b\n}"); err == nil || !strings.Contains(err.Error(), "wrong argument count") {
		t.Errorf("arguments: %v", err)
	}
	var h Handler
	if err := h.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm_simulator {\n speed 3\n}")); err != nil || h.Speed != 3 || h.Name != "" {
		t.Errorf("outside a site: %+v, %v", h, err)
	}
}
