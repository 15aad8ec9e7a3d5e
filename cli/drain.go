package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The exit codes of --wait, beside those of every command: 0, and 1 for errors.
const (
	exitLeft        = 4 // the limit is over, and something still runs
	exitTimeout     = 5 // --timeout is over
	exitInterrupted = 130
)

var drainCommand = caddycmd.Command{
	Name:  "llm-drain",
	Usage: "<name|address>... [--limit <duration>] [--cut] [--wait [--timeout <duration>]] [--pool <name>] [--address <interface>] [--config <path> [--adapter <name>]]",
	Short: "Has LLM servers take no new requests, and waits until they are idle",
	Long: `
The servers named get nothing new from now on, follow-ups of their conversations
included. What runs there goes on to its end. Each is named by its name or its
address, as 'caddy llm-pool' shows them. The order stands until 'caddy llm-resume',
over reloads, but not when Caddy itself is restarted.

--wait shows how much is left and returns when all of the servers are drained: no
request of this Caddy is open there, and by its metrics page, where it has one,
nobody else's either. A server is drained, too, when it was taken out of the
configuration and its last request has ended. If its pool was renamed meanwhile, the
order does not hold under the new name, and that is an error.

--limit says how long that should take. When it is over, what is left is reported
and goes on. With --cut it is ended instead: requests that have brought no token go to
another server, and streams break off, so that their clients see that something is
missing. --cut without a limit does that at once. A second llm-drain of the same
server sets a new limit.

--timeout ends the waiting, not the draining; so does Ctrl-C.

Exit codes:

  0    the order was given; with --wait, all servers are drained
  1    an error: no such server, no Caddy, somebody has resumed a server meanwhile, or
       its pool was renamed
  4    with --wait: a limit is over, and something still runs
  5    with --wait: --timeout is over, and something still runs
  130  with --wait: interrupted; the servers go on draining
`,
	CobraFunc: func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.DurationP("limit", "l", 0, "How long it should take at most; 0 for no limit")
		flags.Bool("cut", false, "End what is left when the limit is over: at once without one")
		flags.BoolP("wait", "w", false, "Show how much is left, and return when nothing is")
		flags.DurationP("timeout", "t", 0, "Wait no longer than this; 0 waits for ever")
		serverFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runDrain)
	},
}

func runDrain(fl caddycmd.Flags) (int, error) {
	d := drain{
		limit: fl.Duration("limit"), cut: fl.Bool("cut"),
		wait: fl.Bool("wait"), timeout: fl.Duration("timeout"), every: waitInterval,
		terminal: isTerminal(os.Stdout), warn: os.Stderr,
	}
	switch {
	case fl.NArg() == 0:
		return caddy.ExitCodeFailedStartup, errNoServer
	case d.limit < 0 || d.timeout < 0:
		return caddy.ExitCodeFailedStartup, errors.New("--limit and --timeout: have a duration above 0, or leave it out")
	case d.timeout > 0 && !d.wait:
		return caddy.ExitCodeFailedStartup, errors.New("--timeout bounds how long --wait waits; to bound the drain use --limit")
	}
	return withAdmin(fl, func(ctx context.Context, address string) error {
		d.orders = orders{send: sender(address), pool: fl.String("pool")}
		return d.run(ctx, os.Stdout, fl.Args())
	})
}

// drain is an order to drain servers.
type drain struct {
	orders
	limit time.Duration
	cut   bool

	wait     bool
	timeout  time.Duration // 0 for none
	every    time.Duration // it is looked how far they are
	terminal bool
	warn     io.Writer
}

func (d *drain) run(ctx context.Context, w io.Writer, names []string) error {
	list, err := d.find(ctx, names)
	if err != nil {
		return err
	}
	order, err := json.Marshal(map[string]any{"limit": d.limit.String(), "cut": d.cut})
	if err != nil {
		return err
	}
	told := w
	if d.wait {
		told = nil // the progress says more
	}
	if err := d.give(ctx, told, list, http.MethodPost, "drain", order); err != nil {
		return err
	}
	d.warnOfNone(ctx, list)
	if !d.wait {
		return nil
	}
	return d.await(ctx, w, list)
}

// warnOfNone says so where a pool is left without a server that takes anything.
func (d *drain) warnOfNone(ctx context.Context, list []*server) {
	seen := make(map[string]bool)
	for _, s := range list {
		if seen[s.pool] {
			continue
		}
		seen[s.pool] = true
		var p llmlb.PoolStatus
		body, err := d.send(ctx, http.MethodGet, poolsPath+"/"+segment(s.pool), nil)
		if err != nil || json.Unmarshal(body, &p) != nil {
			continue // the order was given all the same
		}
		takes := false
		for i := range p.Endpoints {
			takes = takes || !drains(&p.Endpoints[i])
		}
		if !takes {
			fmt.Fprintf(d.warn, "every server of pool %s drains now: requests wait as long as they may, and are refused then\n", printable(s.pool))
		}
	}
}

// drains reports whether the server takes nothing new.
func drains(e *llmlb.EndpointStatus) bool {
	return e.State == llmlb.Draining.String() || e.State == llmlb.Drained.String()
}
