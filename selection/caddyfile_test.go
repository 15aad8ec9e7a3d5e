package selection

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// Each option of the block, and the JSON it stands for.
func TestCaddyfileOptions(t *testing.T) {
	tested := map[string]bool{}
	for _, tc := range []struct{ lines, json string }{
		{"", `{}`},
		{"pool chat", `{"pool":"chat"}`},
		{"engine vllm", `{"engine":"vllm"}`},
		{"engine none", `{"engine":"none"}`},
		{"metrics /v1/metrics", `{"metrics":"/v1/metrics"}`},
		{"metrics :9400/metrics", `{"metrics":":9400/metrics"}`},
		{"metrics https://{host}:9400/metrics", `{"metrics":"https://{host}:9400/metrics"}`},
		{"metrics http://{http.request.host}:9400/metrics", `{"metrics":"http://{host}:9400/metrics"}`}, // as Caddy hands {host} on
		{"scrape_interval 2s", `{"scrape_interval":2000000000}`},
		{"stale_after 1m", `{"stale_after":60000000000}`},
		{"upstream_auth bearer {env.KEY}", `{"upstream_auth":"bearer {env.KEY}"}`},
		{"strategy work", `{"strategy":"work"}`},
		{"strategy prefix_spill", `{"strategy":"prefix_spill"}`},
		{"affinity 0.7", `{"affinity":0.7}`},
		{"affinity 1 256", `{"affinity":1,"affinity_min_tokens":256}`},
		{"spill_waiting 4", `{"spill_waiting":4}`},
		{"spill_waiting 0", `{"spill_waiting":0}`},
		{"spill_waiting off", `{"spill_waiting":0}`},
		{"spill_ttft 750ms", `{"spill_ttft":750000000}`},
		{"spill_ttft off", `{"spill_ttft":0}`},
		{"kv_limit 90%", `{"kv_limit":0.9}`},
		{"kv_limit 0.85", `{"kv_limit":0.85}`},
		{"kv_limit 100%", `{"kv_limit":1}`},
		{"affinity_key two-gateways", `{"affinity_key":"two-gateways"}`},
		{"index_bytes 16MiB", `{"index_bytes":16777216}`},
		{"max_body 8MiB", `{"max_body":8388608}`},
		{
			"endpoint 10.4.0.11:8000 {\nname gpu-a\nmax_concurrent 32\n}\nendpoint 10.4.0.12:8000 {\ndrain\n}\npool after",
			`{"pool":"after","endpoints":[{"upstream":"10.4.0.11:8000","name":"gpu-a","max_concurrent":32},{"upstream":"10.4.0.12:8000","drain":true}]}`,
		},
	} {
		name, _, _ := strings.Cut(tc.lines, " ")
		tested[name] = true
		var p Policy
		if err := p.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm {\n" + tc.lines + "\n}")); err != nil {
			t.Errorf("%q: %v", tc.lines, err)
			continue
		}
		got, err := json.Marshal(&p)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != tc.json {
			t.Errorf("%q: got %s, want %s", tc.lines, got, tc.json)
		}
	}
	for _, name := range OptionNames() {
		if !tested[name] {
			t.Errorf("option %s is not tested", name)
		}
		if options[name] == nil {
			t.Errorf("option %s is listed and cannot be read", name)
		}
	}
	if len(options) != len(OptionNames()) {
		t.Errorf("%d options can be read, %d are listed", len(options), len(OptionNames()))
	}
}

// What is wrong in a line is told with the line and what is allowed.
func TestCaddyfileErrors(t *testing.T) {
	for _, tc := range []struct{ lines, want string }{
		{"strateggy work", "unknown option 'strateggy'; have pool, engine"},
		{"pool", "'pool' needs a value"},
		{"pool a b", "unexpected argument 'b'"},
		{`pool "a b"`, "must be 1 to 64 letters"},
		{"pool {http.request.host}", "must be 1 to 64 letters"},
		{"pool a\npool b", "'pool' is given twice, first at line 2"},
		{"engine vlm", "unknown engine 'vlm'; have auto, none, llamacpp, lmdeploy, nim, sglang, tgi, triton, trtllm, vllm"},
		{"engine", "'engine' needs a value"},
		{"metrics page", "have /path, :port/path, or a URL"},
		{"metrics :9400", "have /path, :port/path, or a URL"},
		{"metrics http://{host/metrics", "have /path"},
		{"metrics ftp://{host}/metrics", "have /path"},
		{"scrape_interval soon", "bad scrape_interval 'soon'"},
		{"scrape_interval -1s", "bad scrape_interval '-1s'"},
		{"scrape_interval 0s", "bad scrape_interval '0s'"},
		{"stale_after 1", "bad stale_after '1'"},
		{"upstream_auth basic abc", "takes 'bearer' and a token"},
		{"upstream_auth bearer SECRET more", "takes 'bearer' and a token"},
		{"upstream_auth bearer \"SECRET\nx\"", "printable ASCII"},
		{"strategy random", "unknown strategy 'random'; have work, prefix_spill"},
		{"affinity 1.5", "bad affinity '1.5'"},
		{"affinity NaN", "bad affinity 'NaN'"},
		{"affinity 0", "bad affinity '0'"},
		{"affinity 0.8 -1", "bad number of tokens '-1' in option 'affinity'"},
		{"affinity 0.8 512 1", "unexpected argument '1'"},
		{"spill_waiting -1", "bad spill_waiting '-1'"},
		{"spill_waiting Inf", "bad spill_waiting 'Inf'"},
		{"spill_ttft -1s", "bad spill_ttft '-1s'"},
		{"spill_ttft 3", "bad spill_ttft '3'"},
		{"kv_limit 95", "bad kv_limit '95'"},
		{"kv_limit 101%", "bad kv_limit '101%'"},
		{"kv_limit 0%", "bad kv_limit '0%'"},
		{"affinity_key", "'affinity_key' needs a value"},
		{"index_bytes much", "bad index_bytes 'much'"},
		{"index_bytes 0", "bad index_bytes '0'"},
		{"max_body -1", "bad max_body '-1'"},
		{"endpoint", "'endpoint' needs a value"},
		{"endpoint a b", "unexpected argument 'b'"},
		{"endpoint a {\nweight 2\n}", "unknown option 'weight' of endpoint 'a'; have name, max_concurrent, drain"},
		{"endpoint a {\nname\n}", "'name' needs a value"},
		{"endpoint a {\nname x\nname y\n}", "'name' of endpoint 'a' is given twice"},
		{"endpoint a {\nmax_concurrent 0\n}", "bad max_concurrent '0'"},
		{"endpoint a {\ndrain maybe\n}", "takes no argument"},
		{"endpoint a\nendpoint a", "endpoint 'a' is described twice"},
	} {
		err := new(Policy).UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm {\n" + tc.lines + "\n}"))
		if err == nil {
			t.Errorf("%q: accepted", tc.lines)
			continue
		}
		if !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: got %q, want something with %q", tc.lines, err, tc.want)
		}
		if !strings.Contains(err.Error(), "Testfile:") && !strings.Contains(err.Error(), "first at line") {
			t.Errorf("%q: the error %q tells no line", tc.lines, err)
		}
		if strings.Contains(err.Error(), "SECRET") {
			t.Errorf("%q: the error repeats the token", tc.lines)
		}
	}
	if err := new(Policy).UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm work")); err == nil {
		t.Error("an argument after the policy's name is accepted")
	}
}

// What a configuration cannot mean is refused when it is validated, as JSON
// too, by the options' names.
func TestValidation(t *testing.T) {
	for _, tc := range []struct {
		policy string // JSON
		want   []string
	}{
		{`"strategy":"random"`, []string{"strategy", `"random"`, "work, prefix_spill"}},
		{`"engine":"vlm"`, []string{"engine", `"vlm"`, "vllm"}},
		{`"pool":"a b"`, []string{"pool", `"a b"`}},
		{`"metrics":"metrics"`, []string{"metrics", ":port/path"}},
		{`"scrape_interval":"6s"`, []string{"scrape_interval 6s", "stale_after 5s"}},
		{`"scrape_interval":"1s","stale_after":"1s"`, []string{"scrape_interval 1s", "stale_after 1s"}},
		{`"scrape_interval":-1`, []string{"scrape_interval", "-1ns"}},
		{`"stale_after":"9999h"`, []string{"stale_after"}},
		{`"affinity":-0.5`, []string{"affinity -0.5"}},
		{`"affinity_min_tokens":-1`, []string{"affinity_min_tokens -1"}},
		{`"spill_waiting":-1`, []string{"spill_waiting -1"}},
		{`"spill_ttft":"-1s"`, []string{"spill_ttft -1s"}},
		{`"kv_limit":95`, []string{"kv_limit 95"}},
		{`"index_bytes":1`, []string{"index_bytes 1"}},
		{`"max_body":-1`, []string{"max_body -1"}},
		{`"upstream_auth":"basic x"`, []string{"upstream_auth", "bearer"}},
		{`"upstream_auth":"bearer {http.request.header.x}"`, []string{"upstream_auth", "http.request.header.x"}},
		{`"endpoints":[{"upstream":"10.4.0.99:8000"}]`, []string{"endpoint", "10.4.0.99:8000", "have 10.4.0.11:8000, 10.4.0.12:8000"}},
		{`"endpoints":[{"upstream":""}]`, []string{"endpoint"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000"},{"upstream":"http://10.4.0.11:8000"}]`, []string{"endpoint", "twice"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","max_concurrent":-1}]`, []string{"endpoint", "max_concurrent -1"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","name":"a"},{"upstream":"10.4.0.12:8000","name":"a"}]`, []string{"name", `"a"`}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","name":"a b"}]`, []string{"name", `"a b"`}},
	} {
		err := validate(tc.policy, `"upstreams":[{"dial":"10.4.0.11:8000"},{"dial":"10.4.0.12:8000"}]`)
		if err == nil {
			t.Errorf("%s: accepted", tc.policy)
			continue
		}
		for _, want := range tc.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error %q does not say %q", tc.policy, err, want)
			}
		}
	}
	for proxy, want := range map[string]string{
		`"upstreams":[{"dial":"{env.HOST}:8000"}]`:                          "placeholder",
		`"upstreams":[{"dial":"10.4.0.11:8000"},{"dial":"10.4.0.11:8000"}]`: "twice",
		`"upstreams":[]`: "no upstreams",
	} {
		if err := validate(`"engine":"none"`, proxy); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want something with %q", proxy, err, want)
		}
	}
	for _, good := range []string{
		`"engine":"none"`,
		`"spill_waiting":0,"spill_ttft":0,"kv_limit":1,"affinity":1`,
		`"scrape_interval":"100ms","stale_after":"500ms","metrics":":9400/metrics"`,
		`"endpoints":[{"upstream":"http://10.4.0.11:8000","name":"gpu-a","max_concurrent":8,"drain":true}]`,
	} {
		if err := validate(good, `"upstreams":[{"dial":"10.4.0.11:8000"},{"dial":"10.4.0.12:8000"}]`); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	if err := validate(`"endpoints":[{"upstream":"a:1"}]`, `"dynamic_upstreams":{"source":"test_list","addresses":["a:1"]}`); err == nil || !strings.Contains(err.Error(), "dynamic") {
		t.Errorf("an endpoint line beside dynamic upstreams: got %v", err)
	}
}

// validate does what "caddy validate" does with a reverse_proxy.
func validate(policy, proxy string) error {
	return caddy.Validate(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{"http": json.RawMessage(
			`{"servers":{"s":{"routes":[{"handle":[{"handler":"reverse_proxy",` + proxy +
				`,"load_balancing":{"selection_policy":{"policy":"llm",` + policy + `}}}]}]}}}`)},
	})
}

// Two blocks may share a pool if they say the same of it, and only then.
func TestBlocksThatShareAPool(t *testing.T) {
	config := func(a, b string) error {
		handler := func(policy string) string {
			return `{"handle":[{"handler":"reverse_proxy","upstreams":[{"dial":"10.4.0.11:8000"}],"load_balancing":{"selection_policy":{"policy":"llm",` + policy + `}}}]}`
		}
		return caddy.Validate(&caddy.Config{
			Admin:   &caddy.AdminConfig{Disabled: true},
			AppsRaw: caddy.ModuleMap{"http": json.RawMessage(`{"servers":{"s":{"routes":[` + handler(a) + `,` + handler(b) + `]}}}`)},
		})
	}
	if err := config(`"strategy":"work"`, `"strategy":"work"`); err != nil {
		t.Errorf("equal blocks: %v", err)
	}
	if err := config(`"strategy":"work"`, `"strategy":"prefix_spill"`); err == nil || !strings.Contains(err.Error(), "default") {
		t.Errorf("different blocks: got %v", err)
	}
	if err := config(`"pool":"a","strategy":"work"`, `"pool":"b","strategy":"prefix_spill"`); err != nil {
		t.Errorf("blocks with a name each: %v", err)
	}
}

func TestTheTokenOfUpstreamAuth(t *testing.T) {
	t.Setenv("LLM_TEST_KEY", "k1\n")
	for auth, want := range map[string]string{
		"":                          "",
		"bearer k2":                 "k2",
		"Bearer k2":                 "k2",
		"bearer {env.LLM_TEST_KEY}": "{env.LLM_TEST_KEY}", // resolved at each scrape
	} {
		if got, err := bearer(auth); got != want || err != nil {
			t.Errorf("%q: got %q, %v", auth, got, err)
		}
	}
	for _, auth := range []string{"bearer", "k2", "bearer {env.LLM_TEST_UNSET_KEY}", "bearer a b", "bearer {nonsense}"} {
		if got, err := bearer(auth); err == nil {
			t.Errorf("%q: accepted as %q", auth, got)
		}
	}
}

// The names that the option takes are those that can be scraped.
func TestEnginesAreKnown(t *testing.T) {
	for _, e := range engines {
		if err := validate(`"engine":"`+e+`"`, `"upstreams":[{"dial":"10.4.0.11:8000"}]`); err != nil {
			t.Errorf("engine %s: %v", e, err)
		}
	}
	if !slices.IsSorted(engines[2:]) {
		t.Error("engines are not in order")
	}
}
