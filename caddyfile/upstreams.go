package caddyfile

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// checkUpstream refuses addresses that reverse_proxy would take and a pool
// cannot use, and those whose mistake reverse_proxy would describe badly. The
// dispenser stands on the address.
func checkUpstream(d *caddyfile.Dispenser) error {
	address := d.Val()
	if address == "" {
		return d.Err("upstream is empty")
	}
	if strings.Contains(address, "{") {
		return d.Errf("upstream '%s' has a placeholder, which has a value only during a request, and the pool must know its servers before; "+
			"write {$NAME} for an environment variable, or 'dynamic' for servers that come and go", address)
	}
	if path := pathOf(address); path != "" {
		return d.Errf("upstream '%s' has a path; requests keep the path they came with, so leave '%s' out", address, path)
	}
	return nil
}

// pathOf returns what follows the host and port of an address, "" if nothing
// does. "unix//run/llm.sock" has no path in this sense: its slash ends the
// network's name.
func pathOf(address string) string {
	rest := address
	if _, after, ok := strings.Cut(address, "://"); ok {
		rest = after
	} else if network, _, ok := strings.Cut(address, "/"); ok && !strings.Contains(network, ":") && knownNetwork(network) {
		return ""
	}
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		return rest[i:]
	}
	return ""
}

func knownNetwork(name string) bool {
	switch name {
	case "tcp", "tcp4", "tcp6", "udp", "udp4", "udp6":
		return true
	}
	return strings.HasPrefix(name, "unix") || caddy.IsFdNetwork(name)
}

// hasScheme reports whether the address says the scheme.
func hasScheme(address, scheme string) bool {
	return strings.HasPrefix(address, scheme+"://")
}
