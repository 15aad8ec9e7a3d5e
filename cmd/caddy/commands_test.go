package main

import (
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// This Caddy has the commands of the module and, unlike one built with xcaddy,
// the load generator.
func TestCommandsAreThere(t *testing.T) {
	have := caddycmd.Commands()
	for _, name := range []string{"llm-pool", "llm-explain", "llm-load"} {
		if have[name].Short == "" {
			t.Errorf("there is no command %s", name)
		}
	}
}
