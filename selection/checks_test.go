package selection

import (
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Whoever writes nothing gets the documented defaults, and whoever writes
// something gets that.
func TestSettingsOfChecks(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		want         llmlb.Checks
		slo          llmlb.SLO
	}{
		{
			name: "defaults",
			want: llmlb.Checks{
				Readiness: llmlb.Readiness{Interval: 5 * time.Second, Timeout: 5 * time.Second, Fails: 3, Passes: 2},
				WarmUp:    30 * time.Second,
			},
		},
		{
			name:   "all of it",
			policy: `,"readiness":{"path":"/r","interval":"1s","timeout":"2s","fails":1,"passes":4},"canary":{"interval":"20s"},"initial":"must_pass","warm_up":"1m","all_down":"refuse","slo":{"ttft":"2s","tpot":"50ms"}`,
			want: llmlb.Checks{
				Readiness: llmlb.Readiness{Path: "/r", Interval: time.Second, Timeout: 2 * time.Second, Fails: 1, Passes: 4},
				Canary:    llmlb.Canary{Interval: 20 * time.Second, MaxTokens: 1, Timeout: 10 * time.Second, Fails: 3},
				WarmUp:    time.Minute, MustPass: true, Refuse: true,
			},
			slo: llmlb.SLO{TTFT: 2 * time.Second, TPOT: 50 * time.Millisecond},
		},
		{
			name:   "nothing",
			policy: `,"readiness":{"off":true},"canary":{},"warm_up":0,"initial":"usable","all_down":"serve"`,
			want: llmlb.Checks{
				Readiness: llmlb.Readiness{Off: true, Interval: 5 * time.Second, Timeout: 5 * time.Second, Fails: 3, Passes: 2},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, p := provision(t, tc.policy, twoUpstreams)
			if s := p.handle.Settings(); s.Checks != tc.want || s.SLO != tc.slo {
				t.Errorf("checks %+v and %+v, want %+v and %+v", s.Checks, s.SLO, tc.want, tc.slo)
			}
		})
	}
}

// What no configuration can mean is refused in JSON too, with the option's name.
func TestChecksThatAreRefused(t *testing.T) {
	d := func(d time.Duration) caddy.Duration { return caddy.Duration(d) }
	long := caddy.Duration(2 * time.Hour)
	for _, tc := range []struct {
		p    *Policy
		want string
	}{
		{&Policy{Readiness: &Readiness{Off: true, Path: "/x"}}, "readiness is off, and has options"},
		{&Policy{Readiness: &Readiness{Path: "x"}}, `readiness "x" is no address`},
		{&Policy{Readiness: &Readiness{Path: ":70000/x"}}, `readiness ":70000/x": "70000" is not a port`},
		{&Policy{Readiness: &Readiness{Path: "http://:9000/x"}}, `readiness "http://:9000/x" is no address`},
		{&Policy{Readiness: &Readiness{Path: "http://me:secret@{host}/x"}}, `readiness: its URL must not hold credentials`},
		{&Policy{Readiness: &Readiness{Interval: d(time.Millisecond)}}, "readiness: interval 1ms"},
		{&Policy{Readiness: &Readiness{Timeout: d(-time.Second)}}, "readiness: timeout -1s"},
		{&Policy{Readiness: &Readiness{Fails: -1}}, "readiness: fails -1"},
		{&Policy{Readiness: &Readiness{Passes: 101}}, "readiness: passes 101"},
		{&Policy{Canary: &Canary{Fails: 2}}, "canary has options and no interval"},
		{&Policy{Canary: &Canary{Interval: long}}, "canary: interval 2h"},
		{&Policy{Canary: &Canary{Interval: d(time.Second), MaxTokens: 17}}, "canary: max_tokens 17"},
		{&Policy{Canary: &Canary{Interval: d(time.Second), Fails: -1}}, "canary: fails -1"},
		{&Policy{Canary: &Canary{Interval: d(time.Second), Timeout: long}}, "canary: timeout 2h"},
		{&Policy{WarmUp: &long}, "warm_up 2h"},
		{&Policy{Initial: "up"}, `initial "up" is not known; have usable, must_pass`},
		{&Policy{AllDown: "drop"}, `all_down "drop" is not known; have serve, refuse`},
		{&Policy{SLO: &SLO{TTFT: d(-1)}}, "slo: ttft -1ns"},
		{&Policy{SLO: &SLO{TPOT: long}}, "slo: tpot 2h"},
		{&Policy{Readiness: &Readiness{Off: true}, Initial: "must_pass"}, "initial must_pass contradicts readiness off"},
		{&Policy{Readiness: &Readiness{Off: true}, AllDown: "refuse"}, "all_down refuse means nothing with readiness off"},
		{&Policy{Engine: "none", Canary: &Canary{Interval: d(time.Minute)}}, "canary needs a model with engine none"},
		{&Policy{Engine: "none", Initial: "must_pass"}, "initial must_pass contradicts engine none"},
		{&Policy{Engine: "none", Readiness: new(Readiness), AllDown: "refuse"}, "all_down refuse means nothing with engine none"},
	} {
		if err := tc.p.check(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want %q", err, tc.want)
		}
	}
}

// A check is enough for rules about checks.
func TestChecksThatAreEnough(t *testing.T) {
	for _, p := range []*Policy{
		{Initial: "must_pass", AllDown: "refuse"},
		{Engine: "none", Readiness: &Readiness{Path: "/ready"}, Initial: "must_pass", AllDown: "refuse"},
		{Engine: "none", Canary: &Canary{Interval: caddy.Duration(time.Minute), Model: "m"}, Initial: "must_pass"},
		{Readiness: &Readiness{Off: true}, Canary: &Canary{Interval: caddy.Duration(time.Minute)}, AllDown: "refuse"},
	} {
		if err := p.check(); err != nil {
			t.Error(err)
		}
	}
}

// Two blocks that share a pool share its checks, so they must agree on them.
func TestFingerprintOfChecks(t *testing.T) {
	proxy := &reverseproxy.Handler{Upstreams: reverseproxy.UpstreamPool{{Dial: "10.4.0.11:8000"}}}
	plain := (&Policy{Pool: "shared"}).fingerprint(proxy)
	for name, p := range map[string]*Policy{
		"readiness": {Readiness: &Readiness{Path: "/r"}},
		"canary":    {Canary: &Canary{Interval: caddy.Duration(time.Second)}},
		"initial":   {Initial: "must_pass"},
		"warm_up":   {WarmUp: new(caddy.Duration)},
		"all_down":  {AllDown: "refuse"},
		"slo":       {SLO: &SLO{TTFT: caddy.Duration(time.Second)}},
	} {
		p.Pool = "shared"
		if p.fingerprint(proxy) == plain {
			t.Errorf("another %s makes no difference", name)
		}
	}
}
