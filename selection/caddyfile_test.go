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
		{"strategy weighted", `{"strategy":"weighted"}`},
		{"strategy round_robin", `{"selection_policy":{"policy":"round_robin"}}`},
		{"strategy random_choose 3\npool after", `{"pool":"after","selection_policy":{"choose":3,"policy":"random_choose"}}`},
		{
			"strategy cookie llm secret {\nfallback first\n}\npool after",
			`{"pool":"after","selection_policy":{"fallback":{"policy":"first"},"name":"llm","policy":"cookie","secret":"secret"}}`,
		},
		{"scorer queue", `{"scorers":[{"scorer":{"name":"queue"}}]}`},
		{
			"scorer queue 0.35\nscorer test_arguments 2 a b {\nc d\n}\nscorer test_arguments_more e\npool after",
			`{"pool":"after","scorers":[{"weight":0.35,"scorer":{"name":"queue"}},` +
				`{"weight":2,"scorer":{"name":"test_arguments","words":["a","b","c","d"]}},` +
				`{"scorer":{"name":"test_arguments_more","words":["e"]}}]}`,
		},
		{"local_zone {env.ZONE}", `{"local_zone":"{env.ZONE}"}`},
		{"orca on", `{"orca":true}`},
		{"orca off", `{}`},
		{"circuit off", `{"circuit":{"failures":0,"rate":0}}`},
		{"circuit {\nfailures 3\nrate 80%\nopen_for 30s\n}\npool after", `{"pool":"after","circuit":{"failures":3,"rate":0.8,"open_for":30000000000}}`},
		{"circuit {\nrate 0.25\n}", `{"circuit":{"rate":0.25}}`},
		{"circuit {\nfailures off\nrate off\n}", `{"circuit":{"failures":0,"rate":0}}`},
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
		{"readiness off", `{"readiness":{"off":true}}`},
		{"readiness /ready", `{"readiness":{"path":"/ready"}}`},
		{"readiness http://{http.request.host}:9000/ready", `{"readiness":{"path":"http://{host}:9000/ready"}}`},
		{
			"readiness :9000/ready {\ninterval 1s\ntimeout 2s\nfails 4\npasses 5\n}\npool after",
			`{"pool":"after","readiness":{"path":":9000/ready","interval":1000000000,"timeout":2000000000,"fails":4,"passes":5}}`,
		},
		{"readiness {\ninterval 1s\n}\npool after", `{"pool":"after","readiness":{"interval":1000000000}}`},
		{"canary off", `{}`},
		{"canary 30s", `{"canary":{"interval":30000000000}}`},
		{
			"canary 1m {\nprompt \"Say 4\"\nexpect 4\nmodel m\nmax_tokens 2\ntimeout 5s\nfails 2\n}\npool after",
			`{"pool":"after","canary":{"interval":60000000000,"prompt":"Say 4","expect":"4","model":"m","max_tokens":2,"timeout":5000000000,"fails":2}}`,
		},
		{"initial must_pass", `{"initial":"must_pass"}`},
		{"warm_up 1m", `{"warm_up":60000000000}`},
		{"warm_up off", `{"warm_up":0}`},
		{"all_down refuse", `{"all_down":"refuse"}`},
		{"slo ttft 2s tpot 50ms", `{"slo":{"ttft":2000000000,"tpot":50000000}}`},
		{"slo tpot 50ms", `{"slo":{"tpot":50000000}}`},
		{
			"endpoint 10.4.0.11:8000 {\nname gpu-a\nweight 2.5\nzone eu\nmax_concurrent 32\nmax_tokens 200000\n}\nendpoint 10.4.0.12:8000 {\ndrain\n}\npool after",
			`{"pool":"after","endpoints":[{"upstream":"10.4.0.11:8000","name":"gpu-a","weight":2.5,"zone":"eu","max_concurrent":32,"max_tokens":200000},{"upstream":"10.4.0.12:8000","drain":true}]}`,
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
		{"engine vlm", "unknown engine 'vlm'; have auto, none, llamacpp, lmdeploy, nim, ollama, sglang, tgi, triton, trtllm, vllm"},
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
		{"strategy", "'strategy' needs a value; have work"},
		{"strategy rand", `unknown strategy "rand"; have work, prefix_spill, weighted, or any Caddy policy: `},
		{"strategy llm", `strategy "llm" is this policy itself`},
		{"strategy work more", "unexpected argument 'more' after option 'strategy'"},
		{"strategy random_choose many", `reading strategy "random_choose": invalid choice value 'many'`},
		{"strategy round_robin\nstrategy work", "option 'strategy' is given twice"},
		{"scorer", "'scorer' needs a name; have errors, kv_memory, latency, prefix, queue, session"},
		{"scorer queu", `scorer "queu" is not known; have errors, kv_memory, latency, prefix, queue, session`},
		{"scorer queue 0", "bad weight '0' of scorer 'queue'"},
		{"scorer queue -1", "bad weight '-1' of scorer 'queue'"},
		{"scorer queue NaN", "bad weight 'NaN' of scorer 'queue'"},
		{"scorer queue Inf", "bad weight 'Inf' of scorer 'queue'"},
		{"scorer queue much", "bad weight 'much' of scorer 'queue'"},
		{"scorer test_arguments 0", "bad weight '0' of scorer 'test_arguments'"},
		{"scorer queue 1 2", "unexpected '2' after scorer 'queue', which has no options"},
		{"scorer queue 1 {\nhalf 3\n}", "unexpected '{' after scorer 'queue', which has no options"},
		{"scorer queue\nscorer queue", "scorer 'queue' is given twice"},
		{"scorer test_arguments 1 wrong", `reading scorer "test_arguments"`},
		{"local_zone", "'local_zone' needs a value"},
		{"local_zone a b", "unexpected argument 'b'"},
		{"orca", "'orca' needs a value"},
		{"orca maybe", "unknown orca 'maybe'; have on, off"},
		{"circuit", "'circuit' needs off, or a block of failures, rate, open_for"},
		{"circuit {\n}", "'circuit' needs off, or a block"},
		{"circuit on", "unknown circuit 'on'; have off, or a block"},
		{"circuit off more", "unexpected argument 'more' after option 'circuit'"},
		{"circuit {\nfailure 3\n}", "unknown option 'failure' of 'circuit'; have failures, rate, open_for"},
		{"circuit {\nfailures\n}", "'failures' needs a value"},
		{"circuit {\nfailures 0\n}", "bad failures '0' of 'circuit'; have 1 to 1000, or off"},
		{"circuit {\nfailures many\n}", "bad failures 'many'"},
		{"circuit {\nfailures 3\nfailures 4\n}", "'failures' of 'circuit' is given twice"},
		{"circuit {\nrate 50\n}", "bad rate '50' of 'circuit'; write '50%' for percent"},
		{"circuit {\nrate 0%\n}", "bad rate '0%' of 'circuit'; have over 0% and up to 100%, or off"},
		{"circuit {\nrate NaN\n}", "bad rate 'NaN'"},
		{"circuit {\nopen_for 0s\n}", "bad open_for '0s' of 'circuit'; have 100ms to 1h0m0s"},
		{"circuit {\nopen_for 2h\n}", "bad open_for '2h'"},
		{"circuit {\nfailures off\nrate off\nopen_for 5s\n}", "open_for 5s means nothing"},
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
		{"endpoint a {\nclass 2\n}", "unknown option 'class' of endpoint 'a'; have name, weight, zone, max_concurrent, max_tokens, drain"},
		{"endpoint a {\nweight\n}", "'weight' needs a value"},
		{"endpoint a {\nweight 0\n}", "bad weight '0'; have 0.01 to 100"},
		{"endpoint a {\nweight 101\n}", "bad weight '101'"},
		{"endpoint a {\nweight NaN\n}", "bad weight 'NaN'"},
		{"endpoint a {\nzone\n}", "'zone' needs a value"},
		{"endpoint a {\nzone \"a b\"\n}", `zone "a b"`},
		{"endpoint a {\nmax_tokens 0\n}", "bad max_tokens '0'"},
		{"endpoint a {\nmax_tokens many\n}", "bad max_tokens 'many'"},
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
		{`"strategy":"rand"`, []string{"strategy", `"rand"`, "work, prefix_spill, weighted", "any Caddy policy", "round_robin"}},
		{`"strategy":"random"`, []string{"strategy", `"selection_policy": {"policy": "random"}`}},
		{`"selection_policy":{"policy":"rand"}`, []string{"strategy", `"rand"`, "work, prefix_spill"}},
		{`"selection_policy":{}`, []string{"strategy", `""`, "work, prefix_spill"}},
		{`"selection_policy":{"policy":"llm"}`, []string{"strategy", `"llm"`, "itself"}},
		{`"selection_policy":{"policy":"cookie","fallback":{"policy":"llm","pool":"inner"}}`, []string{"lb_policy llm", "fallback"}},
		{`"selection_policy":{"policy":"random_choose","choose":1}`, []string{"strategy", "random_choose", "at least 2"}},
		{`"strategy":"work","selection_policy":{"policy":"first"}`, []string{`strategy "work"`, `selection_policy "first"`}},
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"queu"}}]`, []string{"scorer", `"queu"`, "kv_memory"}},
		{`"strategy":"weighted","scorers":[{}]`, []string{"scorer", `""`, "kv_memory"}},
		{`"strategy":"weighted","scorers":[{"weight":-1,"scorer":{"name":"queue"}}]`, []string{"scorer", `"queue"`, "weight -1"}},
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"queue"}},{"scorer":{"name":"queue"}}]`, []string{`scorer "queue"`, "twice"}},
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"queue","half":3}}]`, []string{`scorer "queue"`, "half"}},
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"test_none"}}]`, []string{"test_none", "no scorer"}},
		{`"strategy":"weighted","scorers":[{},{},{},{},{},{},{},{},{}]`, []string{"9 scorers", "up to 8"}},
		{`"scorers":[{"scorer":{"name":"queue"}}]`, []string{`scorer "queue"`, `strategy "weighted"`, `"work"`}},
		{`"selection_policy":{"policy":"first"},"scorers":[{"scorer":{"name":"queue"}}]`, []string{`scorer "queue"`, `strategy "weighted"`, `"first"`}},
		{`"local_zone":"eu"`, []string{`local_zone "eu"`, "no endpoint has a zone"}},
		{`"local_zone":"a b"`, []string{`local_zone "a b"`}},
		{`"local_zone":"{env.LLM_TEST_UNSET_ZONE}"`, []string{"local_zone", "env.LLM_TEST_UNSET_ZONE"}},
		{`"local_zone":"us","endpoints":[{"upstream":"10.4.0.11:8000","zone":"eu"}]`, []string{`local_zone "us"`, "of no endpoint", "have eu"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","zone":"eu"}]`, []string{"endpoint", `zone "eu"`, "local_zone"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","zone":"a b"}]`, []string{"endpoint", `zone "a b"`}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","weight":0.001}]`, []string{"endpoint", "weight 0.001", "0.01 to 100"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","weight":-1}]`, []string{"endpoint", "weight -1"}},
		{`"endpoints":[{"upstream":"10.4.0.11:8000","max_tokens":-1}]`, []string{"endpoint", "max_tokens -1"}},
		{`"engine":"vlm"`, []string{"engine", `"vlm"`, "vllm"}},
		{`"pool":"a b"`, []string{"pool", `"a b"`}},
		{`"metrics":"metrics"`, []string{"metrics", ":port/path"}},
		{`"scrape_interval":"6s"`, []string{"scrape_interval 6s", "stale_after 5s"}},
		{`"scrape_interval":"1s","stale_after":"1s"`, []string{"scrape_interval 1s", "stale_after 1s"}},
		{`"scrape_interval":-1`, []string{"scrape_interval", "-1ns"}},
		{`"stale_after":"9999h"`, []string{"stale_after"}},
		{`"circuit":{"failures":-1}`, []string{"circuit", "failures -1", "0 (off) to 1000"}},
		{`"circuit":{"rate":50}`, []string{"circuit", "rate 50", "0 (off) to 1"}},
		{`"circuit":{"open_for":"1ms"}`, []string{"circuit", "open_for 1ms", "100ms to 1h0m0s"}},
		{`"circuit":{"failures":0,"rate":0,"open_for":"5s"}`, []string{"circuit", "open_for 5s", "means nothing"}},
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
	t.Setenv("LLM_TEST_ZONE", "us")
	for _, good := range []string{
		`"engine":"none"`,
		`"spill_waiting":0,"spill_ttft":0,"kv_limit":1,"affinity":1`,
		`"scrape_interval":"100ms","stale_after":"500ms","metrics":":9400/metrics"`,
		`"endpoints":[{"upstream":"http://10.4.0.11:8000","name":"gpu-a","max_concurrent":8,"drain":true}]`,
		`"strategy":"weighted"`,
		`"strategy":"weighted","scorers":[{"weight":2,"scorer":{"name":"queue"}},{"scorer":{"name":"test_arguments","words":["a"]}}]`,
		`"selection_policy":{"policy":"random_choose","choose":2}`,
		`"local_zone":"{env.LLM_TEST_ZONE}","endpoints":[{"upstream":"10.4.0.11:8000","zone":"eu","weight":0.01,"max_tokens":1},{"upstream":"10.4.0.12:8000","zone":"us","weight":100}]`,
		`"orca":true`,
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
	if err := config(`"strategy":"weighted","scorers":[{"scorer":{"name":"queue"}}]`, `"strategy":"weighted","scorers":[{"scorer":{"name":"queue"}}]`); err != nil {
		t.Errorf("equal scorers: %v", err)
	}
	if err := config(`"selection_policy":{"policy":"first"}`, `"selection_policy":{"policy":"first"}`); err != nil {
		t.Errorf("equal policies of Caddy's: %v", err)
	}
	for _, pair := range [][2]string{
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"queue"}}]`, `"strategy":"weighted","scorers":[{"scorer":{"name":"prefix"}}]`},
		{`"strategy":"weighted","scorers":[{"scorer":{"name":"test_arguments","words":["a"]}}]`, `"strategy":"weighted","scorers":[{"scorer":{"name":"test_arguments","words":["b"]}}]`},
		{`"selection_policy":{"policy":"first"}`, `"selection_policy":{"policy":"random"}`},
		{`"orca":true`, `"orca":false`},
		{`"readiness":{"path":"/ready"}`, `"warm_up":0`},
	} {
		if err := config(pair[0], pair[1]); err == nil || !strings.Contains(err.Error(), "default") {
			t.Errorf("%s and %s: got %v", pair[0], pair[1], err)
		}
	}
	if err := config(`"strategy":"work"`, `"strategy":"prefix_spill"`); err == nil || !strings.Contains(err.Error(), "default") {
		t.Errorf("different blocks: got %v", err)
	}
	if err := config(`"pool":"a","strategy":"work"`, `"pool":"b","strategy":"prefix_spill"`); err != nil {
		t.Errorf("blocks with a name each: %v", err)
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
