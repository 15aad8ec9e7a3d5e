// Package cli adds the "caddy llm-…" commands. Each talks to a running Caddy
// through its admin API, as Caddy's own commands do, and keeps no state.
//
// # Who calls it
//
// Nobody: Caddy runs the commands that init registers. FormatTable,
// FormatRates and FormatPicks are exported for whatever else wants to show a
// pool or its choices as the commands do.
package cli

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

func init() {
	caddycmd.RegisterCommand(poolCommand)
	caddycmd.RegisterCommand(explainCommand)
	caddycmd.RegisterCommand(drainCommand)
	caddycmd.RegisterCommand(resumeCommand)
	caddycmd.RegisterCommand(resetCommand)
}
