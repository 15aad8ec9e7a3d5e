// Command caddy is the Caddy whose profiles are taken: as cmd/caddy, but with the
// profiles of contention switched on, which Caddy leaves off because they cost.
package main

import (
	"runtime"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard"

	_ "github.com/caddy-llmlb/caddy-llmlb"
)

func main() {
	runtime.SetMutexProfileFraction(10)
	runtime.SetBlockProfileRate(int(10 * time.Microsecond))
	caddycmd.Main()
}
