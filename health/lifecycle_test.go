package health

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() { caddy.RegisterModule(new(probe)) }

// probe is a selection policy that does what ours does in Provision: it finds
// its proxy, and the app through the context, and has the upstreams watched.
type probe struct {
	Interval caddy.Duration `json:"interval,omitempty"`
	Drain    bool           `json:"drain,omitempty"`
}

func (*probe) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.reverse_proxy.selection_policies.health_probe", New: func() caddy.Module { return new(probe) }}
}

func (p *probe) Provision(ctx caddy.Context) error {
	app, err := ctx.App("llmlb")
	if err != nil {
		return err
	}
	s := &llmlb.Settings{
		Pool: "probe", Fingerprint: fmt.Sprint(*p), Where: "probe",
		Scrape: llmlb.Scrape{Engine: auto, Interval: time.Duration(p.Interval), StaleAfter: time.Minute},
	}
	for _, m := range ctx.Modules() {
		if proxy, ok := m.(*reverseproxy.Handler); ok {
			s.Upstream = func() (http.RoundTripper, string) { return proxy.Transport, "http" }
			for _, u := range proxy.Upstreams {
				s.Members = append(s.Members, llmlb.Member{Address: u.Dial, Drain: p.Drain})
			}
		}
	}
	_, err = app.(llmlb.Watcher).Watch(s)
	return err
}

func (*probe) Select(pool reverseproxy.UpstreamPool, _ *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
	return pool[0]
}

// proxyConfig is a Caddy configuration with one proxy whose policy is the probe.
func proxyConfig(t *testing.T, listen, upstream string, policy map[string]any) []byte {
	t.Helper()
	policy["policy"] = "health_probe"
	raw, err := json.Marshal(map[string]any{
		"admin":   map[string]any{"disabled": true, "config": map[string]any{"persist": false}},
		"logging": map[string]any{"logs": map[string]any{"default": map[string]any{"writer": map[string]any{"output": "discard"}}}},
		"storage": map[string]any{"module": "file_system", "root": t.TempDir()},
		"apps": map[string]any{"http": map[string]any{"servers": map[string]any{"main": map[string]any{
			"listen": []string{listen}, "automatic_https": map[string]any{"disable": true},
			"routes": []any{map[string]any{"handle": []any{map[string]any{
				"handler": "reverse_proxy", "upstreams": []any{map[string]any{"dial": upstream}},
				"load_balancing": map[string]any{"selection_policy": policy},
			}}}},
		}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// Within Caddy: the app that nobody configured comes up with the policy and
// scrapes over the proxy's transport; validating starts nothing; a reload that
// fails at the last moment changes nothing; one that succeeds does.
func TestWithinCaddy(t *testing.T) {
	scrapes := make(chan struct{}, 1000)
	_, upstream := engine(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, load(2, 1, 0.5))
		select {
		case scrapes <- struct{}{}:
		default:
		}
	})
	pool := func() (found *llmlb.Pool) {
		llmlb.Pools(func(p *llmlb.Pool) {
			if p.Name() == "probe" {
				found = p
			}
		})
		return found
	}
	scrape := func() {
		t.Helper()
		for len(scrapes) > 0 {
			<-scrapes
		}
		for range 2 { // the first was read when the second comes
			select {
			case <-scrapes:
			case <-time.After(limit):
				t.Fatal("nothing scrapes the upstream")
			}
		}
	}
	fast := map[string]any{"interval": "20ms"}
	first := proxyConfig(t, "127.0.0.1:0", upstream, fast)
	var validated caddy.Config
	if err := json.Unmarshal(first, &validated); err != nil {
		t.Fatal(err)
	}
	if err := caddy.Validate(&validated); err != nil {
		t.Fatalf("validating: %v", err)
	}
	if pool() != nil || len(scrapes) > 0 {
		t.Error("validating left something behind")
	}

	if err := caddy.Load(first, true); err != nil {
		t.Fatalf("loading: %v", err)
	}
	defer func() {
		if err := caddy.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if pool() != nil {
			t.Error("the pool outlives the last configuration")
		}
	}()
	scrape()
	p := pool()
	row := p.Status(time.Now()).Endpoints[0]
	for range 100 { // on a busy machine the first ones may come too late to count
		if row.Waiting != nil {
			break
		}
		scrape()
		row = p.Status(time.Now()).Endpoints[0]
	}
	if row.Engine != "vllm" || row.Waiting == nil || *row.Waiting != 1 || row.State != "up" {
		t.Errorf("row is %+v", row)
	}

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	before := p.Current()
	if err := caddy.Load(proxyConfig(t, taken.Addr().String(), upstream, map[string]any{"interval": "1h", "drain": true}), true); err == nil {
		t.Fatal("a configuration with a taken port was loaded")
	}
	if p.Current() != before || p.Status(time.Now()).Endpoints[0].State != "up" {
		t.Error("the configuration that failed changed something")
	}
	scrape()

	if err := caddy.Load(proxyConfig(t, "127.0.0.1:0", upstream, map[string]any{"interval": "20ms", "drain": true}), true); err != nil {
		t.Fatalf("reloading: %v", err)
	}
	if pool() != p || p.Status(time.Now()).Endpoints[0].State != "draining" {
		t.Errorf("after the reload the row is %+v, want draining", p.Status(time.Now()).Endpoints[0])
	}
	scrape()
}
