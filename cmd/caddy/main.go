// Command caddy is Caddy with this module, its simulator and its load generator
// plugged in. It serves development and the quickstart; for production build with
// xcaddy, as the README shows.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb"
	_ "github.com/caddy-llmlb/caddy-llmlb/loadgen"
	_ "github.com/caddy-llmlb/caddy-llmlb/simulator"
)

func main() { caddycmd.Main() }
