// Package caddyllmlb plugs the load balancer for LLM inference servers into
// Caddy. It has no code of its own: importing it registers the modules, the
// Caddyfile directives (llm_proxy, llm_admission, llm_status, and the policy and
// transport named llm of reverse_proxy), the global option llmlb, and the caddy
// llm-… commands. That is what xcaddy needs:
//
//	xcaddy build --with github.com/caddy-llmlb/caddy-llmlb
//
// The simulated inference servers of the examples are not part of it; a build
// that wants them imports package simulator too, as cmd/caddy does.
package caddyllmlb

import (
	_ "github.com/caddy-llmlb/caddy-llmlb/caddyfile"
	_ "github.com/caddy-llmlb/caddy-llmlb/cli"
	_ "github.com/caddy-llmlb/caddy-llmlb/status"
)
