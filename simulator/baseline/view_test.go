package baseline

import (
	"math/rand/v2"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// server is what a gateway may know of one, as far as a case is about it.
type server struct {
	open, pending, match int
	waiting              int
	kv                   float64
}

// view is a gateway's for a prompt of so many tokens. Its servers are 8b-h100.
func view(input int, servers ...server) *virtual.View {
	profile, _ := engine.Preset("8b-h100")
	v := &virtual.View{
		Ask:      &virtual.Ask{Input: input, Key: 1},
		Rand:     rand.New(rand.NewPCG(1, 2)),
		Gateways: 1,
	}
	for _, s := range servers {
		v.Servers = append(v.Servers, virtual.Server{
			Profile: profile, Open: s.open, Pending: s.pending, Match: s.match, Waiting: s.waiting, KVUsage: s.kv,
		})
	}
	return v
}

// unknown are servers that nothing was sent to and that were not scraped yet.
func unknown(n int) []server {
	servers := make([]server, n)
	for i := range servers {
		servers[i].waiting, servers[i].kv = -1, -1
	}
	return servers
}

// strategy makes the named one.
func strategy(t testing.TB, name string) virtual.Strategy {
	t.Helper()
	rule, ok := New(name)
	if !ok {
		t.Fatalf("there is no strategy %q", name)
	}
	return rule()
}
