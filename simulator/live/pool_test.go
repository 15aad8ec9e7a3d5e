package live

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	_ "github.com/caddy-llmlb/caddy-llmlb/simulator"
)

// pool is a gateway before servers, all in one Caddy.
type pool struct {
	t     *testing.T
	name  string
	url   string // of the gateway
	admin string // address of the admin API
}

// startPool runs a gateway that chooses as it is told before new servers, in place
// of the pool before. The name is given to no other.
func startPool(t *testing.T, s setting, name, strategy string) *pool {
	t.Helper()
	p := &pool{t: t, name: name, admin: freeAddr(t)}
	gateway := freeAddr(t)
	p.url = "http://" + gateway
	var sites strings.Builder
	servers := make([]string, s.servers)
	for i := range servers {
		servers[i] = freeAddr(t)
		fmt.Fprintf(&sites, "http://%s {\nllm_simulator {\nname %s-%d\nengine %s\nspeed %g\n}\n}\n", servers[i], name, i+1, s.engine, s.compress)
	}
	text := fmt.Sprintf("{\nadmin %s\ndefault_bind 127.0.0.1\nauto_https off\npersist_config off\n}\nhttp://%s {\n%s}\n%s",
		p.admin, gateway, s.proxy(name, strategy, servers), sites.String())
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		t.Fatal(err)
	}
	if err := caddy.Load(config, true); err != nil {
		t.Fatal(err)
	}
	if own(strategy) {
		p.await(s.servers)
	}
	return p
}

// proxy is the gateway's site: llm_proxy for the strategies of this project, and
// for Caddy's policies a reverse_proxy as anybody would write it. What is not of
// the choice is off: nothing fails here, and virtual time knows none of it.
func (s *setting) proxy(name, strategy string, servers []string) string {
	to := strings.Join(servers, " ")
	if !own(strategy) {
		return fmt.Sprintf("reverse_proxy %s {\nlb_policy %s\nflush_interval -1\n}\n", to, strategy)
	}
	spill := ""
	if strategy == selection.StrategyPrefixSpill {
		spill = fmt.Sprintf("spill_ttft %s\n", s.spillTTFT())
	}
	return fmt.Sprintf(`llm_proxy %s {
pool %s
strategy %s
%sengine vllm
scrape_interval %s
stale_after %s
affinity %g %d
readiness off
warm_up off
circuit off
queue 100000 {
max_wait 1h
}
first_token off
failover off
retries 0
}
`, to, name, strategy, spill, s.scrape(), s.staleAfter(), llmlb.DefaultAffinity, minTokens)
}

// await waits until all servers' numbers have been read.
func (p *pool) await(servers int) {
	p.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for known := 0; known < servers; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			p.t.Fatalf("of %d servers the numbers of %d are known", servers, known)
		}
		known = 0
		for _, e := range p.endpoints() {
			if e.ScrapeAgeMillis != nil {
				known++
			}
		}
	}
}

// endpoints asks the admin API.
func (p *pool) endpoints() []llmlb.EndpointStatus {
	p.t.Helper()
	res, err := http.Get("http://" + p.admin + "/llmlb/pools")
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	var pools []llmlb.PoolStatus
	if err := json.NewDecoder(res.Body).Decode(&pools); err != nil {
		p.t.Fatal(err)
	}
	if len(pools) == 0 {
		return nil
	}
	return pools[0].Endpoints
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
