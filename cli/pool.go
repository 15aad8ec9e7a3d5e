package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var poolCommand = caddycmd.Command{
	Name:  "llm-pool",
	Usage: "[--pool <name>] [--rates] [--watch[=<interval>]] [--json] [--address <interface>] [--config <path> [--adapter <name>]]",
	Short: "Shows the LLM servers behind a running Caddy and their load",
	Long: `
Prints one row per inference server: what its engine reported last (running,
waiting, KV-cache memory, generated tokens per second), the latest time to first
token, its state, and why it is in that state. "–" stands for what is not known.

The numbers come from the admin API of the running Caddy, localhost:2019 unless
--address or the admin option of the --config file says otherwise.

--rates prints a second table of what the gateway has learned of each server from
its own calls: prompt tokens computed a second, time between two tokens, time to
first token of a short prompt (floor), the time to first token predicted for a
prompt of the usual length, how many first tokens taught it, open calls and their
tokens, and the share of attempts that failed lately. Below it stands what was
learned of each model.

--watch prints the table again every second, or at the interval given, until it
is interrupted. On a terminal each table replaces the one before; elsewhere they
follow one another, each under a line with the time.

--json prints what GET /llmlb/pools of the admin API answers, for scripts.
`,
	CobraFunc: func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringP("pool", "p", "", "Show this pool only")
		flags.Bool("rates", false, "Show what was learned of servers and models, too")
		flags.DurationP("watch", "w", 0, "Print again at this interval until interrupted")
		flags.Lookup("watch").NoOptDefVal = "1s"
		flags.Bool("json", false, "Print JSON instead of a table")
		addressFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runPool)
	},
}

func runPool(fl caddycmd.Flags) (int, error) {
	if fl.NArg() > 0 {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("unexpected argument %q; to show one pool use --pool, and --watch takes its interval after '='", fl.Arg(0))
	}
	return withAdmin(fl, func(ctx context.Context, address string) error {
		v := view{
			fetch:  func(ctx context.Context) ([]byte, error) { return fetch(ctx, address, poolsPath) },
			pool:   fl.String("pool"),
			rates:  fl.Bool("rates"),
			asJSON: fl.Bool("json"),
		}
		if !fl.Changed("watch") {
			return v.show(ctx, os.Stdout)
		}
		every := fl.Duration("watch")
		if every <= 0 {
			return fmt.Errorf("--watch=%s: have an interval above 0; without --watch the table is printed once", every)
		}
		v.watch(ctx, os.Stdout, every, isTerminal(os.Stdout))
		return nil
	})
}

// view is what to show and where to get it.
type view struct {
	fetch  func(context.Context) ([]byte, error)
	pool   string // "" shows all
	rates  bool   // show what was learned, too
	asJSON bool
}

// show prints once.
func (v *view) show(ctx context.Context, w io.Writer) error {
	body, err := v.fetch(ctx)
	if err != nil {
		return err
	}
	var pools []llmlb.PoolStatus
	var raw []json.RawMessage // for scripts: all of it, also what a newer Caddy adds
	if err := errors.Join(json.Unmarshal(body, &pools), json.Unmarshal(body, &raw)); err != nil {
		return fmt.Errorf("reading the admin API's answer: %w", err)
	}
	if len(pools) == 0 {
		return errors.New("the running configuration has no LLM pool; add an llm_proxy directive (or lb_policy llm in a reverse_proxy) and reload")
	}
	if v.pool != "" {
		i, err := find(pools, v.pool)
		if err != nil {
			return err
		}
		pools, raw = pools[i:i+1], raw[i:i+1]
	}
	if v.asJSON {
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(raw)
	}
	if v.rates {
		return FormatRates(w, pools)
	}
	return FormatTable(w, pools)
}

// clearScreen moves to the top left and erases what is below.
const clearScreen = "\x1b[H\x1b[2J"

// watch prints at every interval until ctx ends, each time under a line that
// says when. An error is shown in the table's place and tried again: a watch
// should outlive Caddy's restart. On a terminal each table replaces the one
// before; elsewhere, say in a file, they follow one another with a blank line
// between. JSON has no such line there, so that a script can read the values
// one after the other.
func (v *view) watch(ctx context.Context, w io.Writer, every time.Duration, terminal bool) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for first := true; ; first = false {
		var b strings.Builder
		if err := v.show(ctx, &b); err != nil {
			if ctx.Err() != nil {
				return
			}
			b.Reset()
			fmt.Fprintln(&b, printable(err.Error()))
		}
		switch when := time.Now().Format(time.DateTime); {
		case terminal:
			fmt.Fprintf(w, "%s%s, every %s\n\n", clearScreen, when, every)
		case v.asJSON:
		case first:
			fmt.Fprintln(w, when)
		default:
			fmt.Fprintf(w, "\n%s\n", when)
		}
		fmt.Fprint(w, b.String())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// find returns where the pool of that name is, or an error that lists the
// others.
func find(pools []llmlb.PoolStatus, name string) (int, error) {
	names := make([]string, len(pools))
	for i := range pools {
		names[i] = pools[i].Pool
	}
	if i := slices.Index(names, name); i >= 0 {
		return i, nil
	}
	return 0, fmt.Errorf("there is no pool %q; have %s", name, strings.Join(names, ", "))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
