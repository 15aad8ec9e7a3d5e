package caddyfile

import (
	"strings"
	"testing"
)

// badValues are lines that no option takes, by its name.
var badValues = map[string][]string{
	"pool":            {``, `""`, `a b`, `"a b"`, "\"a\nb\"", `{http.request.host}`},
	"engine":          {``, `vlm`, `vllm sglang`, `""`},
	"metrics":         {``, `metrics`, `/a /b`, `ftp://{host}/metrics`, `http://{host/metrics`, `:x/metrics`, `:70000/metrics`, `:9400`},
	"scrape_interval": {``, `-1s`, `0`, `0s`, `soon`, `1`, `1s 2s`, `6s`, `9999h`},
	"stale_after":     {``, `-1s`, `0`, `soon`, `1`, `500ms`, `9999h`},
	"upstream_auth":   {``, `bearer`, `basic abc`, `bearer a b`, `bearer ""`, `bearer {http.request.header.x}`, "bearer \"a\nb\""},
	"strategy": {
		``, `rand`, `work prefix_spill`, `weighted 2`, `""`, `llm`, `random_choose`, `random_choose many`, `random_choose 1`,
		"cookie {\n fallback llm {\n pool inner\n}\n}",
		"work {\n fallback first\n}",
	},
	"scorer": {
		``, `queu`, `""`, `queue 0`, `queue -1`, `queue NaN`, `queue Inf`, `queue 1e9`, `queue much`, `queue 1 2`, "queue {\n half 3\n}",
		"queue\nscorer queue 2", `queue`, "queue\nstrategy prefix_spill", "queue\nstrategy round_robin",
	},
	"affinity":      {``, `-0.1`, `1.5`, `0`, `NaN`, `most`, `0.8 -1`, `0.8 some`, `0.8 512 1`},
	"spill_waiting": {``, `-1`, `some`, `1 2`, `NaN`, `Inf`},
	"spill_ttft":    {``, `-1s`, `soon`, `1`, `1s 2s`},
	"kv_limit":      {``, `0`, `0%`, `-5%`, `101%`, `full`, `NaN`, `90% 80%`},
	"affinity_key":  {``, `""`, `a b`},
	"index_bytes":   {``, `-1`, `0`, `much`, `1B`, `100PiB`, `1MiB 2MiB`},
	"endpoint": {
		``, `10.4.0.99:8000`, `10.4.0.11:8000 10.4.0.12:8000`,
		"10.4.0.11:8000 {\n class 2\n}",
		"10.4.0.11:8000 {\n weight\n}",
		"10.4.0.11:8000 {\n weight 0\n}",
		"10.4.0.11:8000 {\n weight -1\n}",
		"10.4.0.11:8000 {\n weight 100.5\n}",
		"10.4.0.11:8000 {\n weight NaN\n}",
		"10.4.0.11:8000 {\n weight 1\n weight 2\n}",
		"10.4.0.11:8000 {\n zone \"a b\"\n}\nlocal_zone a",
		"10.4.0.11:8000 {\n zone a\n}",
		"10.4.0.11:8000 {\n max_tokens 0\n}",
		"10.4.0.11:8000 {\n max_tokens -1\n}",
		"10.4.0.11:8000 {\n max_tokens many\n}",
		"10.4.0.11:8000 {\n name\n}",
		"10.4.0.11:8000 {\n name \"a b\"\n}",
		"10.4.0.11:8000 {\n name a\n name b\n}",
		"10.4.0.11:8000 {\n max_concurrent 0\n}",
		"10.4.0.11:8000 {\n max_concurrent -1\n}",
		"10.4.0.11:8000 {\n max_concurrent many\n}",
		"10.4.0.11:8000 {\n drain maybe\n}",
		"10.4.0.11:8000 {\n name a\n}\nendpoint 10.4.0.11:8000 {\n drain\n}",
		"10.4.0.11:8000 {\n name a\n}\nendpoint 10.4.0.12:8000 {\n name a\n}",
	},
	"local_zone": {
		``, `""`, `a b`, `"a b"`, `{env.LLM_TEST_UNSET_ZONE}`, `{http.request.host}`, `a`,
		"b\nendpoint 10.4.0.11:8000 {\n zone a\n}",
	},
	"orca":          {``, `maybe`, `on off`, `""`},
	"paths":         {``, `+`, `/v1/embeddings`, `+ v1/embeddings`, `all /v1/x`, `+ all`, `""`, `+ ""`, `+ /a*b`},
	"max_body":      {``, `-1`, `0`, `big`, `1MiB 2MiB`, `100PiB`},
	"body_timeout":  {``, `-1s`, `0`, `soon`, `1`, `1s 2s`},
	"allow_fields":  {``, `""`, `not_a_steering_field`},
	"errors":        {``, `hide`, `write pass`},
	"headers":       {``, `maybe`, `on off`},
	"retries":       {``, `-1`, `many`, `1 2`, `1000000`, `1.5`},
	"write_timeout": {``, `-1s`, `0`, `0s`, `soon`, `60`, `1s 2s`, `1ms`, `48h`},
	"queue": {
		`-1`, `many`, `1e9`, `64 32`, `off 64`, "{\n max_wait -1s\n}", "{\n max_bytes 0\n}", "{\n max_bytes 16MiB\n}",
		"{\n max_tokens 0\n}", "{\n depth 4\n}", "off {\n max_wait 1s\n}", "off {\n max_tokens 5\n}",
	},
	"class": {
		``, `""`, `"a b"`, "a\nclass a", "a\nclass b", "a {\n header \"x-fair id\" v\n}", "a {\n header x:y v\n}", "a {\n header \"\" v\n}",
		"a {\n header X-Class\n}", "a {\n header X-Class \"v\nw\"\n}", "a {\n expression\n}", "a {\n expression {http.auth.user.id} ==\n}",
		"a {\n expression 1 + 1\n}", "a {\n share 60%\n}", "a {\n share 5\n}", "a {\n max_wait -1s\n}", "a {\n deadline 0s\n}",
		"a {\n saturation -1\n}", "a {\n rank 1\n}",
		"a {\n share 50%\n}\nclass b {\n expression true\n share 50%\n}",
		"interactive {\n expression true\n}\nclass default {\n expression false\n}",
		"a {\n max_wait 1s\n}\nqueue off",
	},
	"deadline_header": {``, `""`, `"x-fair id"`, `x:y`, "\"x\ny\"", `a b`},
	"tenant":          {``, `""`, `alice`, `"{http.request.header.x-fair id}"`, `{http.request.header.x-fair id}`, `{http.request.header.x:y}`, "\"{http.auth.user.id}\n\""},
	"tenant_limit": {
		``, `concurrent`, `concurrent 0`, `concurrent -1`, `concurrent many`, `concurrent 4`, `requests 4`, `weight NaN`,
		"weight 2 other\ntenant {http.auth.user.id}", "weight 2 a\ntenant_limit weight 3 a\ntenant {http.auth.user.id}",
	},
	"client_limit": {``, `4`, `concurrent`, `concurrent 0`, `concurrent -1`, `concurrent many`, `requests 4`},
	"model":        {``, `a`, `a b c`, `a a`, `a ""`, `"" a`, "a b\nmodel a c", "a b\nmodel b c", "\"a\nb\" c"},
	"circuit": {
		``, `on`, `off 5`, `5`, "{\n}", "{\n failure 5\n}", "{\n failures 0\n}", "{\n failures many\n}", "{\n failures 1001\n}",
		"{\n rate 50\n}", "{\n rate 101%\n}", "{\n rate 0\n}", "{\n rate NaN\n}", "{\n open_for 0s\n}", "{\n open_for soon\n}",
		"{\n open_for 1ms\n}", "{\n open_for 2h\n}", "{\n failures 3\n failures 4\n}", "off {\n failures 3\n}",
		"{\n failures off\n rate off\n open_for 5s\n}",
	},
	"readiness": {
		``, `""`, `health`, `:x/health`, `:70000/health`, `/a /b`, `:9400`, `ftp://{host}/health`, `http://{host/health`, "off {\n interval 1s\n}", "{\n}",
		"{\n interval 0s\n}", "{\n interval 1ms\n}", "{\n interval 2h\n}", "{\n timeout soon\n}", "{\n timeout 11m\n}",
		"{\n fails 0\n}", "/health {\n passes -1\n}", "{\n passes 101\n}", "{\n fails 2\n fails 3\n}", "{\n rise 2\n}", "{\n interval\n}",
	},
	"canary": {
		``, `on`, `0s`, `-1s`, `2h`, `10`, `10s 20s`, "{\n fails 2\n}", "off {\n fails 2\n}", "10s {\n max_tokens 0\n}",
		"10s {\n max_tokens 17\n}", "10s {\n fails 0\n}", "10s {\n timeout 0\n}", "10s {\n timeout 11m\n}", "10s {\n prompt\n}",
		"10s {\n prompt \"\"\n}", "10s {\n prompt say hi\n}", "10s {\n prompt " + strings.Repeat("x", 5000) + "\n}",
		"10s {\n expect " + strings.Repeat("x", 300) + "\n}", "10s {\n model a\n model b\n}", "10s {\n temperature 0\n}",
	},
	"initial":  {``, `down`, `usable must_pass`, `""`, "must_pass\nreadiness off"},
	"warm_up":  {``, `0s`, `-1s`, `soon`, `30`, `2h`, `1s 2s`},
	"all_down": {``, `drop`, `serve refuse`, `""`, "refuse\nreadiness off\ncanary off"},
	"slo": {
		``, `1s`, `ttft`, `ttft soon`, `ttft 0s`, `ttft -1s`, `ttft 2h`, `itl 50ms`, `ttft 1s tpot`, `ttft 1s ttft 2s`, `tpot 50`,
		`ttft 1s tpot 50ms more`,
	},
}

// A wrong value in any option of llm_proxy must be told by "caddy adapt" or
// "caddy validate", by the option's name: never by the first request that
// fails, and never by being taken for something else.
func TestBadValuesNameTheOption(t *testing.T) {
	for option, lines := range badValues {
		for _, value := range lines {
			t.Run(option+" "+value, func(t *testing.T) {
				err := validate(t, ":8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\n"+option+" "+value+"\n}\n}\n")
				if err == nil {
					t.Fatal("accepted")
				}
				t.Log(err)
				if !strings.Contains(err.Error(), option) {
					t.Errorf("the error does not name the option: %v", err)
				}
			})
		}
	}
}

// Every option that may stand once is refused when it stands twice, with both
// places: otherwise the later one would win without a word.
func TestOptionsGivenTwice(t *testing.T) {
	for option, value := range map[string]string{
		"pool": "a", "engine": "vllm", "metrics": "/metrics", "scrape_interval": "1s", "stale_after": "5s",
		"upstream_auth": "bearer {env.KEY}", "strategy": "work", "affinity": "0.8", "spill_waiting": "3", "spill_ttft": "1s",
		"kv_limit": "90%", "affinity_key": "k", "index_bytes": "16MiB", "max_body": "1MiB", "body_timeout": "10s",
		"local_zone": "a", "orca": "on", "errors": "write", "headers": "on", "retries": "1", "write_timeout": "30s", "circuit": "off",
		"usage": "inject", "heartbeat": "15s", "queue": "{\n\t\t\tmax_wait 1s\n\t\t}", "deadline_header": "X-Deadline",
		"tenant": "{http.auth.user.id}", "client_limit": "concurrent 4", "first_token": "5s 60s",
		"failover": "off", "stall_timeout": "60s", "error_event": "on",
		"readiness": "/health", "canary": "30s", "initial": "usable", "warm_up": "off", "all_down": "serve", "slo": "ttft 1s",
		"transport": "{\n\t\t\tdial_timeout 1s\n\t\t}",
	} {
		t.Run(option, func(t *testing.T) {
			line := "\t\t" + option + " " + value + "\n"
			_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n" + line + line + "\t}\n}\n")
			if err == nil || !strings.Contains(err.Error(), "'"+option+"' is given twice, first at line 3") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The transport's own options may stand in its block or beside it. In both, one of
// them would win without a word.
func TestOptionsGivenInsideAndOutside(t *testing.T) {
	inside := "\t\ttransport {\n\t\t\tdial_timeout 1s\n\t\t\tstall_timeout 60s\n\t\t}\n"
	outside := "\t\tstall_timeout 90s\n"
	for _, lines := range []string{inside + outside, outside + inside} {
		_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n" + lines + "\t}\n}\n")
		if err == nil || !strings.Contains(err.Error(), "'stall_timeout' is given twice, first at line ") {
			t.Errorf("got %v", err)
		}
	}
	if _, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n" + inside + "\t}\n}\n"); err != nil {
		t.Errorf("inside alone: %v", err)
	}
}

// What would work against the modules is refused with the reason, by name.
func TestRefusedOptions(t *testing.T) {
	for line, reason := range map[string]string{
		"lb_policy random":               "always chooses by",
		"lb_retries 3":                   "use 'retries'",
		"lb_try_duration 5s":             "after its client has left",
		"lb_try_interval 1s":             "at once",
		"lb_retry_match method POST":     "generate twice",
		"flush_interval 100ms":           "delay",
		"response_buffers 1MiB":          "hold back",
		"request_buffers 1MiB":           "max_body",
		"fail_duration 10s":              "busy server",
		"max_fails 3":                    "busy server",
		"unhealthy_status 503":           "busy server",
		"unhealthy_latency 1s":           "busy server",
		"unhealthy_request_count 10":     "busy server",
		"unhealthy_something_of_caddy 1": "busy server",
	} {
		name, _, _ := strings.Cut(line, " ")
		t.Run(name, func(t *testing.T) {
			_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n\t\tstrategy work\n\t\t" + line + "\n\t}\n}\n")
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range []string{"'" + name + "' is refused", reason, "Caddyfile:4"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// An option that this version does not have must not look as if it worked.
func TestUnknownOptions(t *testing.T) {
	for _, line := range []string{
		"dial_timeout 1s", "liveness /health", "warmup 30s", "stategy work", "classes background", "tenants {http.auth.user.id}",
	} {
		name, _, _ := strings.Cut(line, " ")
		t.Run(name, func(t *testing.T) {
			_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n\t\tstrategy work\n\t\t" + line + "\n\t}\n}\n")
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range []string{"unknown option '" + name + "'", "Caddyfile:4", "strategy", "what reverse_proxy has"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// Scorers look as if they belonged into a block of their strategy.
func TestScorersInABlockOfTheirStrategy(t *testing.T) {
	_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n\t\tstrategy weighted {\n\t\t\tqueue 2\n\t\t}\n\t}\n}\n")
	if err == nil || !strings.Contains(err.Error(), "scorer <name> [<weight>]") {
		t.Errorf("error %v does not say where scorers stand", err)
	}
}

func TestBadUpstreams(t *testing.T) {
	for upstreams, want := range map[string]string{
		`""`:                                   "upstream is empty",
		`http://10.4.0.11:8000/v1`:             "upstream 'http://10.4.0.11:8000/v1' has a path",
		`http://10.4.0.11:8000/`:               "leave '/' out",
		`10.4.0.11:8000/v1`:                    "leave '/v1' out",
		`https://llm.example.com?x=1`:          "leave '?x=1' out",
		`{env.A}:8000`:                         "placeholder",
		`10.4.0.11:{env.PORT}`:                 "placeholder",
		`10.4.0.11:8000 10.4.0.11:8000`:        "upstream '10.4.0.11:8000' is listed twice",
		`127.0.0.1:8101-8103 127.0.0.1:8102`:   "upstream '127.0.0.1:8102' is listed twice",
		`http://10.4.0.11:8000 https://b:8000`: "same scheme",
		`ftp://10.4.0.11:8000`:                 "unsupported URL scheme",
		`127.0.0.1:1 https://127.0.0.1:2`:      "upstreams '127.0.0.1:1' and 'https://127.0.0.1:2' must have the same scheme",
		`https://127.0.0.1:2 127.0.0.1:1`:      "upstreams 'https://127.0.0.1:2' and '127.0.0.1:1' must have the same scheme",
		`h2c://127.0.0.1:1 http://127.0.0.1:2`: "upstreams 'h2c://127.0.0.1:1' and 'http://127.0.0.1:2' must have the same scheme",
		`10.4.0.11:8000,10.4.0.12:8000`:        "separate upstreams with spaces",
		`10.4.0.11:8000, 10.4.0.12:8000`:       "upstream '10.4.0.11:8000,' has a comma",
		`10.4.0.11`:                            "upstream '10.4.0.11' has no port; write it, as in '10.4.0.11:8000'",
		`llm.internal:`:                        "as in 'llm.internal:8000'",
		`tcp/llm.internal`:                     "as in 'tcp/llm.internal:8000'",
		`2001:db8::1`:                          "as in '[2001:db8::1]:8000'",
		`[2001:db8::1]`:                        "as in '[2001:db8::1]:8000'",
	} {
		t.Run(upstreams, func(t *testing.T) {
			for _, directive := range []string{
				":8080 {\n\tllm_proxy " + upstreams + "\n}\n",
				":8080 {\n\tllm_proxy {\n\t\tto " + upstreams + "\n\t}\n}\n",
			} {
				_, err := adapt(directive)
				if err == nil {
					t.Fatalf("accepted %s", directive)
				}
				if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Caddyfile:") {
					t.Errorf("error %q does not say %q and where", err, want)
				}
			}
		})
	}
}

// Where the port is plain from the address, nobody has to write it.
func TestUpstreamsWhosePortIsPlain(t *testing.T) {
	for upstreams, dials := range map[string][]string{
		`https://llm.example.com`:         {"llm.example.com:443"},
		`http://llm.example.com`:          {"llm.example.com:80"},
		`h2c://llm.example.com`:           {"llm.example.com:80"},
		`unix//run/llm.sock`:              {"unix//run/llm.sock"},
		`[2001:db8::1]:8000`:              {"[2001:db8::1]:8000"},
		`unix//run/a.sock 10.4.0.11:8000`: {"unix//run/a.sock", "10.4.0.11:8000"},
		`tcp/10.4.0.11:8000`:              {"tcp/10.4.0.11:8000"},
	} {
		t.Run(upstreams, func(t *testing.T) {
			cfg, err := adapt(":8080 {\n\tllm_proxy " + upstreams + "\n}\n")
			if err != nil {
				t.Fatal(err)
			}
			for _, dial := range dials {
				if !strings.Contains(string(cfg), `"dial":"`+dial+`"`) {
					t.Errorf("no server %s in %s", dial, cfg)
				}
			}
		})
	}
}

// Who writes 95 means 95 percent, and is told how to write it.
func TestPercentWithoutItsSign(t *testing.T) {
	_, err := adapt(":8080 {\n\tllm_proxy 10.4.0.11:8000 {\n\t\tkv_limit 95\n\t}\n}\n")
	if err == nil || !strings.Contains(err.Error(), "write '95%'") {
		t.Errorf("got %v", err)
	}
}

// Options that are fine alone and contradict each other are refused with both
// names.
func TestContradictions(t *testing.T) {
	for _, tc := range []struct {
		name, lines string
		upstream    string
		want        []string
	}{
		{"scrapes older than allowed", "scrape_interval 10s\nstale_after 5s", "", []string{"scrape_interval", "stale_after"}},
		{"default staleness", "scrape_interval 10s", "", []string{"scrape_interval", "stale_after"}},
		{"two authorizations", "upstream_auth bearer {env.KEY}\nheader_up Authorization x", "", []string{"upstream_auth", "header_up Authorization"}},
		{"two authorizations, other order", "header_up -authorization\nupstream_auth bearer {env.KEY}", "", []string{"upstream_auth", "header_up Authorization"}},
		{"a scorer with another strategy", "scorer queue\nstrategy prefix_spill", "", []string{"scorer", "strategy", "weighted", "prefix_spill"}},
		{"a scorer without weighted", "scorer queue", "", []string{"scorer", "strategy", "weighted", "work"}},
		{"a zone without local_zone", "endpoint 10.4.0.11:8000 {\nzone a\n}", "", []string{"zone \"a\"", "local_zone"}},
		{"a local_zone without zones", "local_zone a", "", []string{"local_zone \"a\"", "endpoint"}},
		{"a local_zone that no endpoint has", "local_zone a\nendpoint 10.4.0.11:8000 {\nzone b\n}", "", []string{"local_zone \"a\"", "have b"}},
		{"plain scheme with TLS", "transport {\ntls\n}", "http://10.4.0.11:8000", []string{"http://", "transport"}},
		{"a tenant's limit without tenants", "tenant_limit concurrent 4", "", []string{"tenant_limit", "'tenant'"}},
		{"two classes for all others", "class a\nclass b", "", []string{"'a'", "'b'", "header", "expression"}},
		{"no queue in which to wait", "queue off {\nmax_wait 1s\n}", "", []string{"queue", "off", "max_wait"}},
		{"bodies that never fit", "queue {\nmax_bytes 8MiB\n}", "", []string{"max_bytes", "max_body"}},
		{"an alias of an alias", "model b c\nmodel a b", "", []string{"model", "'a'", "'b'", "'c'"}},
		{"nothing to pass", "initial must_pass\nreadiness off", "", []string{"initial must_pass", "readiness off", "canary"}},
		{"nothing that takes servers out", "all_down refuse\nreadiness off", "", []string{"all_down refuse", "readiness off", "canary"}},
		{"h2c scheme with versions", "transport {\nversions 1.1\n}", "h2c://10.4.0.11:8000", []string{"h2c://", "versions 1.1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			upstream := tc.upstream
			if upstream == "" {
				upstream = "10.4.0.11:8000"
			}
			err := validate(t, ":8080 {\nllm_proxy "+upstream+" {\n"+tc.lines+"\n}\n}\n")
			if err == nil {
				t.Fatal("accepted")
			}
			t.Log(err)
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %s", err, want)
				}
			}
		})
	}
}

// The modules say no to the same things when JSON or a plain reverse_proxy
// brings them: a second pool without a name would mix two sets of servers.
func TestTwoUnnamedPools(t *testing.T) {
	err := validate(t, ":8080 {\nllm_proxy /a/* 10.4.0.11:8000\nllm_proxy /b/* 10.4.0.12:8000\n}\n")
	if err == nil || !strings.Contains(err.Error(), "pool") || !strings.Contains(err.Error(), "default") {
		t.Errorf("got %v", err)
	}
}

// What the golden files show is also what Caddy can load.
func TestGoodConfigurationsValidate(t *testing.T) {
	t.Setenv("LLM_API_KEY", "k")
	t.Setenv("LLM_ZONE", "b")
	for name, input := range map[string]string{
		"one line":           ":8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000\n}\n",
		"every sort":         ":8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\npool chat\nengine vllm\nmetrics :9400/metrics\nscrape_interval 2s\nstale_after 10s\nupstream_auth bearer {env.LLM_API_KEY}\nstrategy prefix_spill\naffinity 0.7 256\nspill_waiting 4\nspill_ttft 750ms\nkv_limit 90%\naffinity_key k\nindex_bytes 64MiB\nendpoint 10.4.0.11:8000 {\nname gpu-a\nmax_concurrent 32\n}\npaths + /v1/embeddings\nmax_body 8MiB\nbody_timeout 10s\nallow_fields priority\nerrors pass\nheaders off\nretries 1\ntransport {\ndial_timeout 1s\n}\nheader_up X-A b\n}\n}\n",
		"shared":             ":8080 {\nllm_proxy 10.4.0.11:8000 {\nqueue 64 {\nmax_wait 5s\nmax_bytes 1GiB\nmax_tokens 100000\n}\nclass interactive\nclass background {\nheader X-Class background\nshare 10%\nmax_wait 10m\ndeadline 1h\nsaturation 80%\n}\nclass nightly {\nexpression {http.auth.user.id} == \"night\" && path('/v1/*')\nsaturation off\n}\ndeadline_header X-Request-Timeout\ntenant {http.auth.user.id}\ntenant_limit concurrent 4\ntenant_limit weight 4 alice\nclient_limit concurrent 8\nmodel small org/small-7b\nmodel large org/large-70b\n}\n}\n",
		"no queue":           ":8080 {\nllm_proxy 10.4.0.11:8000 {\nqueue off\n}\n}\n",
		"weighted":           ":8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\nstrategy weighted\nscorer queue 2\nscorer kv_memory 2\nscorer prefix 3\nscorer token_budget\nscorer errors\nscorer latency\nscorer session 0.5\nlocal_zone {env.LLM_ZONE}\norca on\nendpoint 10.4.0.11:8000 {\nweight 2\nzone a\nmax_tokens 100000\n}\nendpoint 10.4.0.12:8000 {\nzone b\n}\n}\n}\n",
		"delegated":          ":8080 {\nllm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\nstrategy cookie llm secret {\nfallback least_conn\n}\npool chat\n}\n}\n",
		"checked":            ":8080 {\nllm_proxy 10.4.0.11:8000 {\nreadiness :9400/ready {\ninterval 1s\ntimeout 20s\nfails 1\npasses 1\n}\ncanary 15s {\nprompt \"What is 2 + 2?\"\nexpect 4\nmodel org/small-7b\nmax_tokens 4\ntimeout 30s\nfails 2\n}\ninitial must_pass\nwarm_up 1m\nall_down refuse\nslo ttft 2s tpot 50ms\n}\n}\n",
		"unchecked":          ":8080 {\nllm_proxy 10.4.0.11:8000 {\nreadiness off\ncanary off\nwarm_up off\n}\n}\n",
		"canary alone":       ":8080 {\nllm_proxy 10.4.0.11:8000 {\nreadiness off\ncanary 15s\ninitial must_pass\nall_down refuse\n}\n}\n",
		"Caddy's own checks": ":8080 {\nllm_proxy 10.4.0.11:8000 {\nhealth_uri /health\nhealth_interval 10s\nreadiness /health\n}\n}\n",
		"https":              ":8080 {\nllm_proxy https://llm.example.com\n}\n",
		"h2c":                ":8080 {\nllm_proxy h2c://10.4.0.11:8000\n}\n",
		"dynamic":            ":8080 {\nllm_proxy {\ndynamic a llm.internal 8000\n}\n}\n",
		"two pools":          ":8080 {\nllm_proxy /a/* 10.4.0.11:8000 {\npool a\n}\nllm_proxy /b/* 10.4.0.12:8000 {\npool b\n}\n}\n",
		"same twice":         ":8080 {\nllm_proxy /a/* 10.4.0.11:8000\nllm_proxy /b/* 10.4.0.11:8000\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := validate(t, input); err != nil {
				t.Error(err)
			}
		})
	}
}

// Caddy reads {host} in a Caddyfile as its own short form of a placeholder for
// the request's host. In metrics it means the upstream's.
func TestMetricsMayNameTheUpstreamsHost(t *testing.T) {
	const input = ":8080 {\nllm_proxy 10.4.0.11:8000 {\nmetrics http://{host}:9400/metrics\n}\n}\n"
	if err := validate(t, input); err != nil {
		t.Fatal(err)
	}
	cfg, err := adapt(input)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(cfg), `"metrics":"http://{host}:9400/metrics"`) {
		t.Errorf("adapted to %s", cfg)
	}
}
