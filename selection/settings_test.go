package selection

import (
	"encoding/json"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// provision loads a reverse_proxy with the policy and returns both.
func provision(t *testing.T, policy, proxy string) (*reverseproxy.Handler, *Policy) {
	t.Helper()
	return provisionWith(t, policy, "", proxy)
}

// provisionWith does so with more of load_balancing.
func provisionWith(t *testing.T, policy, balancing, proxy string) (*reverseproxy.Handler, *Policy) {
	t.Helper()
	ctx, err := caddy.ProvisionContext(&caddy.Config{Admin: &caddy.AdminConfig{Disabled: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	mod, err := ctx.LoadModuleByID("http.handlers.reverse_proxy", json.RawMessage(
		`{`+proxy+`,"load_balancing":{"selection_policy":{"policy":"llm","pool":"`+poolName(t)+`"`+policy+`}`+balancing+`}}`))
	if err != nil {
		t.Fatal(err)
	}
	h := mod.(*reverseproxy.Handler)
	return h, h.LoadBalancing.SelectionPolicy.(*Policy)
}

const twoUpstreams = `"upstreams":[{"dial":"10.4.0.11:8000"},{"dial":"10.4.0.12:8000"}]`

// The proxy's upstreams are listed once, in the proxy.
func TestSettingsComeFromTheProxyAndTheOptions(t *testing.T) {
	t.Run("defaults", func(t *testing.T) {
		_, p := provision(t, "", twoUpstreams)
		s := p.handle.Settings()
		if s.Strategy != StrategyWork || s.SpillWaiting != 0 || s.SpillTTFT != 0 {
			t.Errorf("strategy %s, thresholds %v and %v; want work without thresholds", s.Strategy, s.SpillWaiting, s.SpillTTFT)
		}
		if s.Affinity != 0.8 || s.MinTokens != 512 || s.KVLimit != 0.95 {
			t.Errorf("affinity %v %d, kv_limit %v", s.Affinity, s.MinTokens, s.KVLimit)
		}
		if s.Scrape.Engine != "auto" || s.Scrape.Interval != time.Second || s.Scrape.StaleAfter != 5*time.Second {
			t.Errorf("scrape %+v", s.Scrape)
		}
		if len(s.Members) != 2 || s.Members[0].Address != "10.4.0.11:8000" || s.Members[0].Name != llmlb.DefaultName(poolName(t), "10.4.0.11:8000") {
			t.Errorf("members %+v", s.Members)
		}
		if got := indexOf(p.handle.Pool()).bytes.Load(); got != DefaultIndexBytes {
			t.Errorf("index of %d bytes", got)
		}
	})
	t.Run("retries and circuit", func(t *testing.T) {
		usual := llmlb.Circuit{Failures: 5, Rate: 0.5, OpenFor: 10 * time.Second}
		for i, tc := range []struct {
			policy, balancing string
			retries           int
			circuit           llmlb.Circuit
		}{
			{"", "", 0, usual},
			{"", `,"retries":3`, 3, usual},
			{"", `,"try_duration":"5s"`, math.MaxInt, usual}, // as often as there are servers
			{"", `,"try_duration":"5s","retries":1`, 1, usual},
			{`,"circuit":{}`, "", 0, usual},
			{`,"circuit":{"failures":3,"open_for":"30s"}`, "", 0, llmlb.Circuit{Failures: 3, Rate: 0.5, OpenFor: 30 * time.Second}},
			{`,"circuit":{"failures":0,"rate":0.8}`, "", 0, llmlb.Circuit{Rate: 0.8, OpenFor: 10 * time.Second}},
			{`,"circuit":{"failures":0,"rate":0}`, "", 0, llmlb.Circuit{OpenFor: 10 * time.Second}},
		} {
			t.Run(strconv.Itoa(i), func(t *testing.T) {
				_, p := provisionWith(t, tc.policy, tc.balancing, twoUpstreams)
				if s := p.handle.Settings(); s.Retries != tc.retries || s.Circuit != tc.circuit {
					t.Errorf("retries %d, circuit %+v; want %d and %+v", s.Retries, s.Circuit, tc.retries, tc.circuit)
				}
			})
		}
	})
	t.Run("prefix_spill", func(t *testing.T) {
		_, p := provision(t, `,"strategy":"prefix_spill","spill_ttft":0,"index_bytes":1048576,"endpoints":[{"upstream":"10.4.0.12:8000","name":"gpu-b","max_concurrent":8,"drain":true}]`, twoUpstreams)
		s := p.handle.Settings()
		if s.SpillWaiting != 3 || s.SpillTTFT != 0 {
			t.Errorf("thresholds %v and %v, want 3 and off", s.SpillWaiting, s.SpillTTFT)
		}
		if m := s.Members[1]; m.Name != "gpu-b" || m.MaxConcurrent != 8 || !m.Drain {
			t.Errorf("member %+v", m)
		}
		if got := indexOf(p.handle.Pool()).bytes.Load(); got != 1<<20 {
			t.Errorf("index of %d bytes", got)
		}
	})
	t.Run("weighted", func(t *testing.T) {
		t.Setenv("LLM_TEST_ZONE", "eu")
		_, p := provision(t, `,"strategy":"weighted","scorers":[{"weight":2,"scorer":{"name":"prefix"}},{"scorer":{"name":"test_arguments","words":["a"]}}],"orca":true,"local_zone":"{env.LLM_TEST_ZONE}","endpoints":[{"upstream":"10.4.0.12:8000","weight":2.5,"zone":"eu","max_tokens":1000}]`, twoUpstreams)
		s := p.handle.Settings()
		if len(s.Scorers) != 2 || s.Scorers[0].Name != "prefix" || s.Scorers[0].Weight != 2 || s.Scorers[1].Weight != 1 {
			t.Fatalf("scorers %+v", s.Scorers)
		}
		if own, ok := s.Scorers[1].Scorer.(*someArguments); !ok || len(own.Words) != 1 {
			t.Errorf("the scorer by somebody else is %+v", s.Scorers[1].Scorer)
		}
		if m := s.Members[1]; !s.ORCA || s.Zone != "eu" || m.Weight != 2.5 || m.Zone != "eu" || m.MaxTokens != 1000 {
			t.Errorf("orca %v, zone %q, member %+v", s.ORCA, s.Zone, m)
		}
	})
	t.Run("weighted without scorers", func(t *testing.T) {
		_, p := provision(t, `,"strategy":"weighted"`, twoUpstreams)
		got := map[string]float64{}
		for _, s := range p.handle.Settings().Scorers {
			got[s.Name] = s.Weight
		}
		if want := map[string]float64{"queue": 0.35, "prefix": 0.35, "token_budget": 0.20, "errors": 0.10}; !maps.Equal(got, want) {
			t.Errorf("weights %v, want %v", got, want)
		}
	})
	t.Run("a policy of Caddy's", func(t *testing.T) {
		_, p := provision(t, `,"selection_policy":{"policy":"random_choose","choose":3}`, twoUpstreams)
		s := p.handle.Settings()
		if s.Strategy != "random_choose" || !s.Delegated || s.Scorers != nil {
			t.Errorf("strategy %s, delegated %v, scorers %v", s.Strategy, s.Delegated, s.Scorers)
		}
		if chosen, ok := p.selector.(*reverseproxy.RandomChoiceSelection); !ok || chosen.Choose != 3 {
			t.Errorf("the policy is %+v", p.selector)
		}
	})
	t.Run("dynamic", func(t *testing.T) {
		_, p := provision(t, "", `"dynamic_upstreams":{"source":"test_list","addresses":["a:1"]}`)
		if s := p.handle.Settings(); !s.Dynamic || len(s.Members) != 0 {
			t.Errorf("dynamic %v, members %v", s.Dynamic, s.Members)
		}
	})
}

// Scrapes go through the proxy's own transport, so that they use its TLS.
func TestTheProxysTransportIsUsed(t *testing.T) {
	for transport, want := range map[string]string{
		``:                                 "http",
		`,"transport":{"protocol":"http"}`: "http",
		`,"transport":{"protocol":"http","tls":{}}`: "https",
	} {
		t.Run(want+transport, func(t *testing.T) {
			h, p := provision(t, "", twoUpstreams+transport)
			rt, scheme := p.handle.Settings().Upstream()
			if rt != h.Transport || rt == nil || scheme != want {
				t.Errorf("transport %T, scheme %s, want the proxy's %T and %s", rt, scheme, h.Transport, want)
			}
		})
	}
}

// Gateways with equal keys agree on homes; another key moves them.
func TestAffinityKeyIsStable(t *testing.T) {
	key := func(name, option string) (k uint64) {
		t.Run(name, func(t *testing.T) {
			_, p := provision(t, option, twoUpstreams)
			k = p.handle.Settings().AffinityKey
		})
		return k
	}
	a, b, c := key("first", ""), key("second", ""), key("other", `,"affinity_key":"x"`)
	if a != b || a == c {
		t.Errorf("keys %x, %x without the option, %x with", a, b, c)
	}
}

// Two blocks that share a pool share its thresholds, so they must agree on them.
func TestFingerprintOfRetriesAndCircuit(t *testing.T) {
	fingerprint := func(retries int, c *Circuit) string {
		p := &Policy{Pool: "shared", Circuit: c}
		return p.fingerprint(&reverseproxy.Handler{
			Upstreams:     reverseproxy.UpstreamPool{{Dial: "10.4.0.11:8000"}},
			LoadBalancing: &reverseproxy.LoadBalancing{Retries: retries},
		})
	}
	if one, same := fingerprint(2, nil), fingerprint(2, nil); one != same {
		t.Error("equal blocks differ")
	}
	if fingerprint(2, nil) == fingerprint(3, nil) {
		t.Error("other retries make no difference")
	}
	if fingerprint(2, nil) == fingerprint(2, &Circuit{Failures: new(3)}) {
		t.Error("another circuit makes no difference")
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
