package integration

import (
	"strings"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// toxic is a toxiproxy between the gateway and one simulator: it passes bytes on
// until it is told how to spoil them. It runs in the test's own process.
type toxic struct{ proxy *toxiproxy.Proxy }

// startToxic stands in front of a simulator until the test ends.
func startToxic(t *testing.T, s simulator) toxic {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	proxy := toxiproxy.NewProxy(server, s.name, "127.0.0.1:0", s.address())
	if err := proxy.Start(); err != nil {
		t.Fatalf("starting toxiproxy before %s: %v", s.name, err)
	}
	t.Cleanup(proxy.Stop)
	return toxic{proxy}
}

func (p toxic) address() string { return p.proxy.Listen }

// add spoils the connections that are open and those to come, as toxiproxy's own
// documentation describes its toxics in JSON.
func (p toxic) add(t *testing.T, toxics ...string) {
	t.Helper()
	for _, toxic := range toxics {
		if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
			t.Fatalf("adding the toxic %s: %v", toxic, err)
		}
	}
}
