package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// gateway is a running Caddy.
type gateway struct {
	t     testing.TB
	url   string
	admin string // address of the admin API
	sites string // what else the Caddyfile has

	global string // what else its global options have

	loads atomic.Int32 // configurations loaded
}

// options of the tests' gateways: scrapes fast enough to wait for.
const fast = "scrape_interval 50ms\nstale_after 2s\n"

// start runs Caddy with one site that holds the given directives.
func start(t testing.TB, site string) *gateway {
	t.Helper()
	return startBeside(t, "", site)
}

// startBeside is start with further sites in the same Caddy.
func startBeside(t testing.TB, sites, site string) *gateway {
	t.Helper()
	g := &gateway{t: t, sites: sites}
	g.run(site, func() string { return "http://" + freeAddr(t) })
	return g
}

// run starts Caddy with the site at a URL that nobody has, until the test ends.
func (g *gateway) run(site string, free func() string) {
	g.t.Helper()
	for tries := 1; ; tries++ {
		g.url, g.admin = free(), freeAddr(g.t)
		err := g.load(site)
		if err == nil {
			break
		}
		// Another process may have taken a port since it was looked at.
		if !strings.Contains(err.Error(), "address already in use") || tries == 3 {
			g.t.Fatalf("loading the configuration: %v", err)
		}
	}
	g.t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			g.t.Errorf("stopping: %v", err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
}

// load loads or reloads the site.
func (g *gateway) load(site string) error {
	config, err := g.adapt(site)
	if err != nil {
		return err
	}
	g.loads.Add(1)
	return caddy.Load(config, true)
}

func (g *gateway) adapt(site string) ([]byte, error) {
	text := fmt.Sprintf("{\nadmin %s\npersist_config off\ndefault_bind 127.0.0.1\nauto_https off\n%s}\n%s {\n%s\n}\n%s", g.admin, g.global, g.url, site, g.sites)
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	return config, err
}

// freeAddr is an address that nobody listens on.
func freeAddr(t testing.TB) string {
	t.Helper()
	l := listen(t)
	defer l.Close()
	return l.Addr().String()
}

// firstPort and ports are where servers and gateways listen: below the ports that
// systems give to connections, so that one which is closed for a moment is not
// taken meanwhile. Caddy would share it without a word.
const firstPort, ports = 10_000, 22_000

var (
	// Processes that were started together are far from each other, and none is
	// where the one before it was.
	portSeed  = (uint32(os.Getpid())*701 + rand.Uint32N(101)) % ports
	portsUsed atomic.Uint32
)

// listen opens a port of this process's own.
func listen(t testing.TB) net.Listener {
	t.Helper()
	for range ports {
		port := firstPort + (portSeed+portsUsed.Add(1))%ports
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return l
		}
	}
	t.Fatal("no port is free")
	panic("unreachable")
}

// pools asks the admin API for the pools.
func (g *gateway) pools() []llmlb.PoolStatus {
	g.t.Helper()
	res := g.fromAdmin("/llmlb/pools")
	defer res.Body.Close()
	var pools []llmlb.PoolStatus
	if err := json.NewDecoder(res.Body).Decode(&pools); err != nil {
		g.t.Fatal(err)
	}
	return pools
}

// fromAdmin asks the admin API. A reload puts another server in its place, and may
// end the connection of a request that has just been sent on it.
func (g *gateway) fromAdmin(path string) *http.Response {
	g.t.Helper()
	for tries := 1; ; tries++ {
		res, err := http.Get("http://" + g.admin + path)
		if err == nil {
			return res
		}
		if tries == 3 {
			g.t.Fatal(err)
		}
	}
}

// endpoint returns the named endpoint's status.
func (g *gateway) endpoint(name string) llmlb.EndpointStatus {
	g.t.Helper()
	for _, p := range g.pools() {
		for _, e := range p.Endpoints {
			if e.Name == name {
				return e
			}
		}
	}
	g.t.Fatalf("no endpoint named %q", name)
	panic("unreachable")
}

// reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

func (r reply) endpoint() string { return r.header.Get("X-LLM-Endpoint") }
func (r reply) decision() string { return r.header.Get("X-LLM-Decision") }

// post sends a body to the chat path and reads the whole answer.
func (g *gateway) post(body string) reply {
	g.t.Helper()
	r, err := g.ask(http.DefaultClient, body)
	if err != nil {
		g.t.Fatal(err)
	}
	return r
}

// ask is post for goroutines, with a client of their own. After a reload it
// tries again when no answer began, as any client would: Caddy closes connections
// that are idle then, and those that the old listener has not accepted yet.
func (g *gateway) ask(client *http.Client, body string) (reply, error) {
	deadline := time.Now().Add(10 * time.Second)
	res, err := client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	for err != nil && g.loads.Load() > 1 && time.Now().Before(deadline) {
		time.Sleep(2 * time.Millisecond)
		res, err = client.Post(g.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	}
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, fmt.Errorf("reading the answer: %w after %q", err, text)
	}
	return reply{res.StatusCode, res.Header, string(text)}, nil
}

// send is post for any path and body. Like ask it tries again after a reload.
func (g *gateway) send(path string, body io.Reader) reply {
	g.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = io.ReadAll(body); err != nil {
			g.t.Fatal(err)
		}
	}
	_, sized := body.(interface{ Len() int })
	for tries := 1; ; tries++ {
		var again io.Reader = bytes.NewReader(text)
		if body != nil && !sized {
			again = io.MultiReader(again) // of unknown length, as it came
		}
		res, err := http.Post(g.url+path, "application/json", again)
		if err == nil {
			return read(g.t, res)
		}
		if g.loads.Load() < 2 || tries == 100 {
			g.t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

func read(t testing.TB, res *http.Response) reply {
	t.Helper()
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("reading the answer: %v after %q", err, text)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

// chat makes a chat body of one system and one user message.
func chat(stream bool, system, user string) string {
	messages := []map[string]string{}
	if system != "" {
		messages = append(messages, map[string]string{"role": "system", "content": system})
	}
	messages = append(messages, map[string]string{"role": "user", "content": user})
	body, err := json.Marshal(map[string]any{"model": "m", "stream": stream, "messages": messages})
	if err != nil {
		panic(err)
	}
	return string(bytes.TrimSpace(body))
}

// prose returns n bytes of text that depends on the seed from its first word.
func prose(seed string, n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "%s %d ", seed, i)
	}
	return b.String()[:n]
}
