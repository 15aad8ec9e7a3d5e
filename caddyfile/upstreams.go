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
	if strings.Contains(address, ",") {
		return d.Errf("upstream '%s' has a comma; separate upstreams with spaces", address)
	}
	if path := pathOf(address); path != "" {
		return d.Errf("upstream '%s' has a path; requests keep the path they came with, so leave '%s' out", address, path)
	}
	if !saysPort(address) {
		return d.Errf("upstream '%s' has no port; write it, as in '%s' (http:// alone means port 80, https:// alone 443)", address, withPort(address))
	}
	return nil
}

// saysPort reports whether the address leaves no doubt about its port: it names
// one, its scheme does, or it is of a kind that has none. reverse_proxy would
// take 80, where hardly any inference server listens.
func saysPort(address string) bool {
	if strings.Contains(address, "://") {
		return true
	}
	network, _, port, err := caddy.SplitNetworkAddress(address)
	if caddy.IsUnixNetwork(network) || caddy.IsFdNetwork(network) {
		return true
	}
	return err == nil && port != ""
}

// withPort is the address as it would look with vLLM's usual port.
func withPort(address string) string {
	host := strings.TrimSuffix(address, ":")
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]" // IPv6
	}
	return host + ":8000"
}

// checkSameScheme refuses upstreams of which some are reached otherwise than
// the rest. reverse_proxy lets one without a scheme pass before one with, and
// uses the scheme of the last for all.
func checkSameScheme(d *caddyfile.Dispenser, first, next string) error {
	if schemeOf(first) == schemeOf(next) {
		return nil
	}
	return d.Errf("upstreams '%s' and '%s' must have the same scheme, since all are reached the same way; "+
		"use an llm_proxy with a pool of its own for each scheme", first, next)
}

// schemeOf returns what the address says before "://", "" if nothing.
func schemeOf(address string) string {
	if strings.HasPrefix(address, "unix+h2c/") {
		return "h2c"
	}
	scheme, _, ok := strings.Cut(address, "://")
	if !ok {
		return ""
	}
	return scheme
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
