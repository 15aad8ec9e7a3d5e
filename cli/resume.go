package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var resumeCommand = caddycmd.Command{
	Name:  "llm-resume",
	Usage: "<name|address>... [--wait [--timeout <duration>]] [--pool <name>] [--address <interface>] [--config <path> [--adapter <name>]]",
	Short: "Has drained LLM servers take new requests again",
	Long: `
Ends what 'caddy llm-drain' has ordered. The servers get new requests once a readiness
check has passed, or at once where none is made, at first fewer than others: see
warm_up. Each is named by its name or its address, as
'caddy llm-pool' shows them. One that was not drained stays as it is.

--wait returns when all of the servers are in use: reachable, and through with their
checks. Where a server is not asked whether it is ready, its metrics page must have
been read since the resume. --timeout ends the waiting, not more.

A server that the configuration drains (endpoint … { drain }) goes on draining, and
that is an error: the configuration has to be changed.

Exit codes:

  0    the servers were resumed; with --wait, all are in use
  1    an error: no such server, no Caddy, or the configuration drains one
  5    with --wait: --timeout is over, and a server is not in use yet
  130  with --wait: interrupted
`,
	CobraFunc: func(cmd *cobra.Command) {
		cmd.Flags().BoolP("wait", "w", false, "Return when all of them are in use")
		cmd.Flags().DurationP("timeout", "t", 0, "Wait no longer than this; 0 waits for ever")
		serverFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runResume)
	},
}

func runResume(fl caddycmd.Flags) (int, error) {
	r := resume{wait: fl.Bool("wait"), timeout: fl.Duration("timeout"), every: waitInterval}
	switch {
	case fl.NArg() == 0:
		return caddy.ExitCodeFailedStartup, errNoServer
	case r.timeout < 0:
		return caddy.ExitCodeFailedStartup, errors.New("--timeout: have a duration above 0, or leave it out")
	case r.timeout > 0 && !r.wait:
		return caddy.ExitCodeFailedStartup, errors.New("--timeout bounds how long --wait waits")
	}
	return withAdmin(fl, func(ctx context.Context, address string) error {
		r.orders = orders{send: sender(address), pool: fl.String("pool")}
		return r.run(ctx, os.Stdout, fl.Args())
	})
}

// resume ends orders to drain.
type resume struct {
	orders
	wait    bool
	timeout time.Duration // 0 for none
	every   time.Duration

	at     time.Time        // when the orders had ended
	unseen map[*server]bool // those of which nothing is known since
}

func (r *resume) run(ctx context.Context, w io.Writer, names []string) error {
	list, err := r.find(ctx, names)
	if err != nil {
		return err
	}
	drained := make(map[*server]bool)
	for _, s := range list {
		drained[s] = drains(&s.row)
	}
	if err := r.give(ctx, w, list, http.MethodDelete, "drain", nil); err != nil || !r.wait {
		return err
	}
	r.at, r.unseen = time.Now(), make(map[*server]bool)
	for _, s := range list {
		// One that is to pass a check says so. Of others only the old process may be
		// known yet: their page must be read once more.
		r.unseen[s] = drained[s] && inUse(&s.row) && s.row.ScrapeAgeMillis != nil
	}
	return r.await(ctx, w, list)
}

// await tells of changes until all of the servers are in use.
func (r *resume) await(ctx context.Context, w io.Writer, list []*server) error {
	var timeout <-chan time.Time
	if r.timeout > 0 {
		timeout = time.After(r.timeout)
	}
	tick := time.NewTicker(r.every)
	defer tick.Stop()
	var unseen time.Time // since when the admin API has not answered
	for {
		var missing []string
		for _, s := range list {
			switch {
			case !inUse(&s.row):
				missing = append(missing, standing(&s.row))
			case r.unseen[s]:
				missing = append(missing, standing(&s.row)+", its metrics were not read since the resume")
			}
		}
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return &ending{exitInterrupted, "interrupted: " + strings.Join(missing, "; ")}
		case <-timeout:
			return &ending{exitTimeout, fmt.Sprintf("not in use within %s: %s", r.timeout, strings.Join(missing, "; "))}
		case <-tick.C:
		}
		err := r.look(ctx, w, list)
		switch _, gone := errors.AsType[notThere](err); {
		case err == nil:
			unseen = time.Time{}
		case gone:
			return err
		case unseen.IsZero():
			unseen = time.Now() // a reload closes the API for a moment
		case time.Since(unseen) > patience:
			return err
		}
	}
}

// unseenFor bounds how long it is waited for a server's page that cannot be read any
// more, though the server can be reached.
const unseenFor = 15 * time.Second

// look asks again for the servers that are not in use.
func (r *resume) look(ctx context.Context, w io.Writer, list []*server) error {
	for _, s := range list {
		if inUse(&s.row) && !r.unseen[s] {
			continue
		}
		since := time.Since(r.at)
		body, err := r.send(ctx, http.MethodGet, s.path(""), nil)
		if err != nil {
			return err
		}
		was := s.row.State
		var row llmlb.EndpointStatus
		if err := json.Unmarshal(body, &row); err != nil {
			return fmt.Errorf("reading the admin API's answer: %w", err)
		}
		if s.row = row; row.State != was {
			fmt.Fprintln(w, standing(&row))
		}
		age := row.ScrapeAgeMillis
		if age == nil || *age < since.Seconds()*1000 || row.Blind && since >= unseenFor {
			r.unseen[s] = false
		}
	}
	return nil
}

// inUse reports whether the server is well and takes new requests.
func inUse(e *llmlb.EndpointStatus) bool {
	switch e.State {
	case llmlb.Up.String(), llmlb.Degraded.String(), llmlb.Overload.String():
		return true
	}
	return false
}
