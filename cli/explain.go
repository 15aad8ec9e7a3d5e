package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var explainCommand = caddycmd.Command{
	Name:  "llm-explain",
	Usage: "[--pool <name>] [--endpoint <name|address>] [--limit <n>] [--json] [--address <interface>] [--config <path> [--adapter <name>]]",
	Short: "Shows why a running Caddy chose the LLM servers that it chose last",
	Long: `
Prints the last choices of a server, the newest first: what was asked for, what
was decided and why, and the servers as they stood at that moment, the one chosen
first (→), then the next best. A pool remembers its last 64 choices.

  matched    prompt tokens that the server was believed to hold in its cache
  uncached   those it would have had to compute
  waiting, running
             requests in its queue and in its batch: our own now, and those of
             others by the last scrape
  ahead      prompt tokens that stood before this request
  kv-mem     how full its KV cache was
  prefill/s  prompt tokens it computes a second, as learned
  load       time to load the adapter or model, where some server had to
  floor      time to first token that no prompt is too short for, as learned
  wait       what others had to do with the cost; "cold" goes by it
  predicted  the time to first token that follows from these
  cost       what "work" minimises: the prediction and what others would lose
  score      what "weighted" maximises: the mean of what the scorers said, each of
             which has a column; a line above tells what each weighs (×), and what
             was the same for all
  ttft       with other strategies, the latest time to first token
  note       "warm": it holds the prefix; "home": the conversation's key falls on
             it; "no numbers": none from scrapes, or too old ones
  why not    what stood against taking it; "(waived)" when nothing better was left

The choices come from the admin API of the running Caddy, localhost:2019 unless
--address or the admin option of the --config file says otherwise. No prompt is
remembered, and nothing of who sent it.

--endpoint shows only choices of that server. --json prints what GET
/llmlb/explain of the admin API answers, for scripts.
`,
	CobraFunc: func(cmd *cobra.Command) {
		flags := cmd.Flags()
		flags.StringP("pool", "p", "", "Show choices in this pool only")
		flags.StringP("endpoint", "e", "", "Show choices of this server only, by its name or address")
		flags.IntP("limit", "n", 5, "Show at most this many, up to 64")
		flags.Bool("json", false, "Print JSON instead of text")
		addressFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runExplain)
	},
}

func runExplain(fl caddycmd.Flags) (int, error) {
	if fl.NArg() > 0 {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("unexpected argument %q; to show one server use --endpoint, to show one pool --pool", fl.Arg(0))
	}
	return withAdmin(fl, func(ctx context.Context, address string) error {
		e := explanation{
			fetch: func(ctx context.Context, path string) ([]byte, error) { return fetch(ctx, address, path) },
			pool:  fl.String("pool"), endpoint: fl.String("endpoint"), limit: fl.Int("limit"),
			asJSON: fl.Bool("json"), zone: time.Local,
		}
		return e.show(ctx, os.Stdout)
	})
}

// explanation is which choices to show and where to get them.
type explanation struct {
	fetch          func(ctx context.Context, path string) ([]byte, error)
	pool, endpoint string // "" shows all
	limit          int
	asJSON         bool
	zone           *time.Location // in which times are shown
}

// show prints the choices.
func (e *explanation) show(ctx context.Context, w io.Writer) error {
	if e.limit < 1 || e.limit > llmlb.MaxPicks {
		return fmt.Errorf("--limit %d: a pool remembers its last %d choices; have 1 to %d", e.limit, llmlb.MaxPicks, llmlb.MaxPicks)
	}
	body, err := e.fetch(ctx, e.path())
	if err != nil {
		return err
	}
	var picks []llmlb.PickStatus
	if err := json.Unmarshal(body, &picks); err != nil {
		return fmt.Errorf("reading the admin API's answer: %w", err)
	}
	if e.asJSON { // all of it, also what a newer Caddy adds
		var b bytes.Buffer
		if err := json.Indent(&b, bytes.TrimSpace(body), "", "  "); err != nil {
			return fmt.Errorf("reading the admin API's answer: %w", err)
		}
		b.WriteByte('\n')
		_, err = b.WriteTo(w)
		return err
	}
	if len(picks) == 0 {
		_, err = io.WriteString(w, e.nothing())
		return err
	}
	return FormatPicks(w, picks, e.zone)
}

func (e *explanation) path() string {
	q := url.Values{"limit": {strconv.Itoa(e.limit)}}
	if e.pool != "" {
		q.Set("pool", e.pool)
	}
	if e.endpoint != "" {
		q.Set("endpoint", e.endpoint)
	}
	return explainPath + "?" + q.Encode()
}

func (e *explanation) nothing() string {
	if e.endpoint != "" {
		return fmt.Sprintf("none of the last choices fell on %s; 'caddy llm-pool' shows its state\n", printable(e.endpoint))
	}
	if e.pool != "" {
		return fmt.Sprintf("nothing was chosen yet: no prompt has come to pool %s\n", printable(e.pool))
	}
	return "nothing was chosen yet: no prompt has come to a pool that runs now\n"
}
