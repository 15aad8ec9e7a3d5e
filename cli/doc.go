// Package cli adds the "caddy llm-…" commands. Each talks to a running Caddy
// through its admin API, as Caddy's own commands do, and keeps no state.
//
// # Who calls it
//
// Nobody: Caddy runs the commands that init registers. FormatTable is exported
// for whatever else wants to show a pool as the command does.
package cli

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

func init() {
	caddycmd.RegisterCommand(poolCommand)
}
