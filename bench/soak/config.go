//go:build linux

package main

import (
	"fmt"
	"maps"
	"strings"
	"sync"
)

// The pools. Both have all servers; in the second no answer is begun twice.
const (
	poolMain = "main"
	poolOnce = "once"
)

// patience is what the gateway is set to, short enough that each happens often.
const patience = `		engine vllm
		scrape_interval 500ms
		stale_after 5s
		readiness {
			interval 1s
		}
		index_bytes 1MiB
		first_token 2s 4s
		stall_timeout %s
		warm_up 2s
		write_timeout 5s
		error_event %s
		circuit {
			open_for 2s
		}
		queue 4000 {
			max_wait 20s
			max_bytes 192MiB
		}
		tenant {http.request.header.X-Soak-Tenant}
		tenant_limit concurrent 3 bounded
		tenant_limit weight 4 heavy
`

// config is the gateway's configuration as it changes. Loads are one at a time.
type config struct {
	mu      sync.Mutex
	gateway *gateway
	site    string // its address
	admin   string

	servers []*server
	without map[string]bool // servers that are taken out
	drains  map[string]bool // servers with drain in the configuration
	variant int
	loads   int // that have been made
}

// text is the Caddyfile. Idle connections have 3 s: where an HTTP/2 client leaves
// while its server is being replaced, the timer for that keeps the old server and its
// connection in memory, and the default of Caddy is 5 minutes.
func (c *config) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n\tadmin %s\n\tpersist_config off\n\tauto_https off\n\tmetrics\n\tservers {\n\t\tprotocols h1 h2c\n\t\ttimeouts {\n\t\t\tidle 3s\n\t\t}\n\t}\n}\n", c.admin)
	fmt.Fprintf(&b, "http://%s {\n", c.site)
	b.WriteString("\thandle_path /once/* {\n")
	c.proxy(&b, poolOnce, "\t\tfailover unsent\n\t\ttransport {\n\t\t\tkeepalive off\n\t\t}\n")
	b.WriteString("\t}\n\thandle {\n")
	c.proxy(&b, poolMain, "")
	b.WriteString("\t}\n}\n")
	return b.String()
}

func (c *config) proxy(b *strings.Builder, pool, more string) {
	b.WriteString("\tllm_proxy")
	var endpoints strings.Builder
	for _, s := range c.servers {
		if c.without[s.name] {
			continue
		}
		b.WriteString(" " + s.address)
		fmt.Fprintf(&endpoints, "\t\tendpoint %s {\n\t\t\tname %s\n\t\t\tmax_concurrent %d\n", s.address, s.name, maxConcurrent+c.variant%3)
		if c.drains[s.name] {
			endpoints.WriteString("\t\t\tdrain\n")
		}
		endpoints.WriteString("\t\t}\n")
	}
	stall, event := "3s", "off"
	if c.variant%2 == 1 {
		stall, event = "3500ms", "on"
	}
	fmt.Fprintf(b, " {\n\t\tpool %s\n%s%s%s\t}\n", pool, fmt.Sprintf(patience, stall, event), more, endpoints.String())
}

// maxConcurrent is how many requests a server may have from a pool, so that bursts
// are queued.
const maxConcurrent = 40

// change changes the configuration and loads it; when that fails it is as it was.
func (c *config) change(how func()) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	variant := c.variant
	without, drains := maps.Clone(c.without), maps.Clone(c.drains)
	how()
	c.loads++
	if err := c.gateway.load(c.text()); err != nil {
		c.variant, c.without, c.drains = variant, without, drains
		return fmt.Errorf("loading configuration %d: %w", c.loads, err)
	}
	return nil
}

// spoil loads a configuration that cannot start, which must change nothing.
func (c *config) spoil(kind int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	bad := []string{
		strings.Replace(c.text(), "stall_timeout", "stall_timeuot", 1),
		strings.Replace(c.text(), "index_bytes 1MiB", "index_bytes 2MiB\n\t\tpool other\n", 1),
		// The port of a server is taken, so that the new configuration cannot start.
		c.text() + fmt.Sprintf("http://%s {\n\trespond 204\n}\n", c.servers[0].address),
	}
	if err := c.gateway.load(bad[kind%len(bad)]); err == nil {
		return fmt.Errorf("bad configuration %d was taken", kind%len(bad))
	}
	return nil
}
