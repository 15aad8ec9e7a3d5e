package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// controlled is an admin API that notes what it is told. rows answers for a server
// by its address, or with an error.
type controlled struct {
	t     *testing.T
	pools []llmlb.PoolStatus
	rows  func(address string) (*llmlb.EndpointStatus, error)
	told  []string
}

func (c *controlled) send(_ context.Context, method, path string, body []byte) ([]byte, error) {
	if path == poolsPath {
		return []byte(encoded(c.t, c.pools...)), nil
	}
	if method != http.MethodGet {
		c.told = append(c.told, strings.TrimSpace(method+" "+path+" "+string(body)))
	}
	pool, rest, several := strings.Cut(strings.TrimPrefix(path, poolsPath+"/"), "/endpoints/")
	if !several {
		for _, p := range c.pools {
			if p.Pool == pool {
				b, err := json.Marshal(p)
				return b, err
			}
		}
		return nil, notThere("there is no pool")
	}
	rest, _, _ = strings.Cut(rest, "/")
	address, err := url.PathUnescape(rest)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.rows != nil {
		row, err := c.rows(address)
		if err != nil {
			return nil, err
		}
		return json.Marshal(row)
	}
	for _, p := range c.pools {
		for _, e := range p.Endpoints {
			if e.Address == address {
				return json.Marshal(e)
			}
		}
	}
	return nil, notThere("there is no endpoint")
}

func twoPools() []llmlb.PoolStatus {
	a, b := row("gpu-a", "10.4.0.11:8000", 0, 0, 0, 0), row("gpu-b", "unix//run/b 50%.sock", 0, 0, 0, 0)
	c, both := row("..", "10.4.0.13:8000", 0, 0, 0, 0), row("both", "10.4.0.14:8000", 0, 0, 0, 0)
	return []llmlb.PoolStatus{
		{Pool: "chat", Endpoints: []llmlb.EndpointStatus{a, b, both}},
		{Pool: "code/odd", Endpoints: []llmlb.EndpointStatus{c, both}},
	}
}

// Servers are found by what the table shows of them, and an order that could mean
// two servers, or one that is not there, is given to nobody.
func TestOrdersFindTheirServers(t *testing.T) {
	for _, test := range []struct {
		pool  string
		names []string
		want  string // paths, or the error
	}{
		{"", []string{"gpu-a"}, "/llmlb/pools/chat/endpoints/10.4.0.11:8000"},
		{"", []string{"10.4.0.11:8000", "gpu-a"}, "/llmlb/pools/chat/endpoints/10.4.0.11:8000"},
		{"", []string{"gpu-a", ".."}, "/llmlb/pools/chat/endpoints/10.4.0.11:8000 /llmlb/pools/code%2Fodd/endpoints/10.4.0.13:8000"},
		{"", []string{"unix//run/b 50%.sock"}, "/llmlb/pools/chat/endpoints/unix%2F%2Frun%2Fb%2050%25.sock"},
		{"chat", []string{"both"}, "/llmlb/pools/chat/endpoints/10.4.0.14:8000"},
		{"", []string{"both"}, `"both" is in the pools chat, code/odd; say which with --pool`},
		{"", []string{"10.4.0.14:8000"}, `"10.4.0.14:8000" is in the pools chat, code/odd; say which with --pool`},
		{"", []string{"gpu-a", "gpu-z"}, `there is no server "gpu-z"; have gpu-a, gpu-b, both, .., both`},
		{"code/odd", []string{"gpu-a"}, `there is no server "gpu-a"; have .., both`},
		{"embed", []string{"gpu-a"}, `there is no pool "embed"; have chat, code/odd`},
	} {
		c := &controlled{t: t, pools: twoPools()}
		o := orders{send: c.send, pool: test.pool}
		list, err := o.find(t.Context(), test.names)
		var got []string
		for _, s := range list {
			got = append(got, s.path(""))
		}
		if err != nil {
			got = []string{err.Error()}
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%q %q: %s, want %s", test.pool, test.names, strings.Join(got, " "), test.want)
		}
	}
}

// An error does not list a thousand names, and a folder's own name is one like any
// other.
func TestOrdersListFewNames(t *testing.T) {
	p := llmlb.PoolStatus{Pool: ".."}
	for i := range 1000 {
		p.Endpoints = append(p.Endpoints, row(fmt.Sprintf("gpu-%d", i), fmt.Sprintf("host:%d", i), 0, 0, 0, 0))
	}
	c := &controlled{t: t, pools: []llmlb.PoolStatus{p}}
	o := orders{send: c.send}
	if _, err := o.find(t.Context(), []string{"gone"}); err == nil || len(err.Error()) > 300 || !strings.HasSuffix(err.Error(), " and 980 more") {
		t.Errorf("%v", err)
	}
	list, err := o.find(t.Context(), []string{"gpu-7"})
	if err != nil || list[0].path("/drain") != "/llmlb/pools/%2E%2E/endpoints/host:7/drain" {
		t.Errorf("%v, %v", list, err)
	}
}

// Each server gets its order, though another refuses it.
func TestOrdersAreGivenToAll(t *testing.T) {
	c := &controlled{t: t, pools: twoPools()[:1]}
	c.rows = func(address string) (*llmlb.EndpointStatus, error) {
		if address == "10.4.0.11:8000" {
			return nil, llmlb.ErrDrainConfigured
		}
		e := row("both", address, 3, 0, 0.1, 100)
		return &e, nil
	}
	o := orders{send: c.send}
	list, err := o.find(t.Context(), []string{"gpu-a", "both"})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	err = o.give(t.Context(), &b, list, http.MethodDelete, "drain", nil)
	if !errors.Is(err, llmlb.ErrDrainConfigured) || !strings.HasPrefix(err.Error(), "gpu-a: ") {
		t.Errorf("error %v", err)
	}
	if got := strings.Join(c.told, "\n"); got != "DELETE /llmlb/pools/chat/endpoints/10.4.0.11:8000/drain\nDELETE /llmlb/pools/chat/endpoints/10.4.0.14:8000/drain" {
		t.Errorf("told %s", got)
	}
	if b.String() != "both 10.4.0.14:8000: up\n" {
		t.Errorf("printed %q", b.String())
	}
}

// What the admin API says of an order is what the operator reads.
func TestOrdersThatAreRefused(t *testing.T) {
	for _, test := range []struct {
		status     int
		said, want string
	}{
		{409, `{"error":"the configuration drains it: take it out"}`, "the configuration drains it: take it out"},
		{400, `{"error":"the limit is -1s"}`, "the limit is -1s"},
		{404, `{"error":"there is no endpoint \"x\" in pool \"chat\"; have y"}`, `there is no endpoint "x" in pool "chat"; have y`},
		{404, `{"error":"no such resource; have /llmlb/pools"}`, "runs an older version of this module"},
		{403, `{"error":"client is not allowed to access from origin"}`, "HTTP 403"},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodPost || r.URL.EscapedPath() != "/llmlb/pools/a%2Fb/endpoints/c/drain" || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("asked for %s %s", r.Method, r.URL.EscapedPath())
			}
			w.WriteHeader(test.status)
			_, _ = w.Write([]byte(test.said))
		}))
		_, err := send(t.Context(), srv.Listener.Addr().String(), http.MethodPost, "/llmlb/pools/a%2Fb/endpoints/c/drain", []byte(`{}`))
		srv.Close()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d %s: %v, want %s", test.status, test.said, err, test.want)
		}
		if _, gone := errors.AsType[notThere](err); gone != strings.HasPrefix(test.want, "there is no") {
			t.Errorf("%d %s: told apart wrongly", test.status, test.said)
		}
	}
}

// A mistake on the command line is told before anything is asked.
func TestOrderMistakes(t *testing.T) {
	for _, test := range []struct{ args, want string }{
		{"drain", "name one server or more"},
		{"resume", "name one server or more"},
		{"reset", "name one server or more"},
		{"drain a --timeout 1m", "--timeout bounds how long --wait waits"},
		{"drain a --limit -1m", "have a duration above 0"},
		{"drain a --wait --timeout -1m", "have a duration above 0"},
	} {
		args := strings.Fields(test.args)
		cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
		map[string]func(*cobra.Command){"drain": drainCommand.CobraFunc, "resume": resumeCommand.CobraFunc, "reset": resetCommand.CobraFunc}[args[0]](cmd)
		cmd.SetArgs(append(args[1:], "--address", "127.0.0.1:1"))
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.args, err, test.want)
		}
	}
}
