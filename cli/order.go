package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var resetCommand = caddycmd.Command{
	Name:  "llm-reset",
	Usage: "<name|address>... [--pool <name>] [--address <interface>] [--config <path> [--adapter <name>]]",
	Short: "Has LLM servers tried again that failures or pauses keep out of use",
	Long: `
Closes the servers' circuits, ends the pauses that they have asked for, and sends the
next request to those that could not be reached: for when you have mended one and do
not want to wait for its next trial. What readiness checks and canaries say of a
server stands, and so does a drain.
`,
	CobraFunc: func(cmd *cobra.Command) {
		serverFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runReset)
	},
}

// serverFlags adds the flags by which commands find servers.
func serverFlags(cmd *cobra.Command) {
	cmd.Flags().StringP("pool", "p", "", "Look for the servers in this pool only")
	addressFlags(cmd)
}

var errNoServer = errors.New("name one server or more, by name or address; 'caddy llm-pool' lists them")

func runReset(fl caddycmd.Flags) (int, error) {
	if fl.NArg() == 0 {
		return caddy.ExitCodeFailedStartup, errNoServer
	}
	return withAdmin(fl, func(ctx context.Context, address string) error {
		o := orders{send: sender(address), pool: fl.String("pool")}
		list, err := o.find(ctx, fl.Args())
		if err != nil {
			return err
		}
		return o.give(ctx, os.Stdout, list, http.MethodPost, "reset", nil)
	})
}

// sendFunc asks the admin API.
type sendFunc func(ctx context.Context, method, path string, body []byte) ([]byte, error)

func sender(address string) sendFunc {
	return func(ctx context.Context, method, path string, body []byte) ([]byte, error) {
		return send(ctx, address, method, path, body)
	}
}

// orders gives orders to servers of a running Caddy.
type orders struct {
	send sendFunc
	pool string // "" looks in all

	had map[place]bool // all that there was when the servers were looked for
}

// place is an address in a pool.
type place struct{ pool, address string }

// server is one that was named on the command line.
type server struct {
	pool string
	row  llmlb.EndpointStatus // as last seen
}

// path is where the admin API has it. Its address says which one is meant, also
// while a reload gives it another name.
func (s *server) path(part string) string {
	return poolsPath + "/" + segment(s.pool) + "/endpoints/" + segment(s.row.Address) + part
}

// segment encodes a part of a path, also what would stand for another folder.
func segment(name string) string {
	if name == "." || name == ".." {
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// find returns the servers named, each once. All must be there before anything is
// changed.
func (o *orders) find(ctx context.Context, names []string) ([]*server, error) {
	pools, err := o.pools(ctx)
	if err != nil {
		return nil, err
	}
	o.had = make(map[place]bool)
	for i := range pools {
		for j := range pools[i].Endpoints {
			o.had[place{pools[i].Pool, pools[i].Endpoints[j].Address}] = true
		}
	}
	if o.pool != "" {
		i, err := find(pools, o.pool)
		if err != nil {
			return nil, err
		}
		pools = pools[i : i+1]
	}
	var list []*server
	for _, name := range names {
		s, err := named(pools, name)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(list, func(x *server) bool { return x.path("") == s.path("") }) {
			list = append(list, s)
		}
	}
	return list, nil
}

func (o *orders) pools(ctx context.Context) (pools []llmlb.PoolStatus, err error) {
	body, err := o.send(ctx, http.MethodGet, poolsPath, nil)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(body, &pools); err != nil {
		return nil, fmt.Errorf("reading the admin API's answer: %w", err)
	}
	return pools, nil
}

// moved returns the server as it stands in a pool that did not have it when the
// order was given, nil where there is none: its own pool was renamed, and the order
// has stayed behind.
func (o *orders) moved(ctx context.Context, s *server) (*server, error) {
	pools, err := o.pools(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pools {
		p := &pools[i]
		for j := range p.Endpoints {
			if e := &p.Endpoints[j]; e.Address == s.row.Address && p.Pool != s.pool && !o.had[place{p.Pool, e.Address}] {
				return &server{pool: p.Pool, row: *e}, nil
			}
		}
	}
	return nil, nil //nolint:nilnil // there is none, and that is no error
}

// maxNames bounds how many names an error lists.
const maxNames = 20

// named finds a server by name or address. One that is in several pools is not
// chosen by chance.
func named(pools []llmlb.PoolStatus, name string) (*server, error) {
	var found []*server
	var in, have []string
	for i := range pools {
		p := &pools[i]
		at := slices.IndexFunc(p.Endpoints, func(e llmlb.EndpointStatus) bool { return e.Address == name })
		if at < 0 {
			at = slices.IndexFunc(p.Endpoints, func(e llmlb.EndpointStatus) bool { return e.Name == name })
		}
		if at >= 0 {
			found = append(found, &server{pool: p.Pool, row: p.Endpoints[at]})
			in = append(in, p.Pool)
		}
		for j := range p.Endpoints {
			have = append(have, p.Endpoints[j].Name)
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		return nil, fmt.Errorf("%q is in the pools %s; say which with --pool", name, strings.Join(in, ", "))
	case len(have) == 0:
		return nil, fmt.Errorf("there is no server %q: no pool has any", name)
	case len(have) > maxNames:
		return nil, fmt.Errorf("there is no server %q; have %s and %d more", name, strings.Join(have[:maxNames], ", "), len(have)-maxNames)
	}
	return nil, fmt.Errorf("there is no server %q; have %s", name, strings.Join(have, ", "))
}

// give sends an order to each of the servers and prints how each stands then. One
// that refuses it does not keep the others from theirs.
func (o *orders) give(ctx context.Context, w io.Writer, list []*server, method, part string, body []byte) error {
	var refused []error
	for _, s := range list {
		answer, err := o.send(ctx, method, s.path("/"+part), body)
		if err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", printable(s.row.Name), err))
			continue
		}
		if err := json.Unmarshal(answer, &s.row); err != nil {
			return fmt.Errorf("reading the admin API's answer: %w", err)
		}
		if w != nil {
			fmt.Fprintln(w, standing(&s.row))
		}
	}
	return errors.Join(refused...)
}

// standing is a server's state in one line. Of one that is up it does not matter what
// was the matter with its numbers.
func standing(e *llmlb.EndpointStatus) string {
	line := printable(e.Name) + " " + printable(e.Address) + ": " + printable(e.State)
	row := *e
	if row.Blind = false; row.State == llmlb.Up.String() {
		row.Reason = ""
	}
	if why := reason(&row); why != "" {
		line += ", " + why
	}
	return line
}
