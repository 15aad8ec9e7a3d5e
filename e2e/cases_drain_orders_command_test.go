package e2e

import (
	"strings"
	"testing"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// command runs one of Caddy's commands in this process, and returns its error.
func (g *gateway) command(line string) error {
	args := strings.Fields(line)
	cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
	caddycmd.Commands()[args[0]].CobraFunc(cmd)
	cmd.SetArgs(append(args[1:], "--address", g.admin))
	return cmd.ExecuteContext(g.t.Context())
}

// The commands do with a running Caddy what their help says.
func TestTheCommandsThatDrain(t *testing.T) {
	g, a, b := pair(t, "")
	openA := gate(a)
	defer openA()
	onlyFree(a, a, b)
	finish := holdStream(g, chat(true, "", "runs"))
	allFree(a, b)
	for _, test := range []struct{ line, state, says string }{
		{"llm-drain a c", "up", `there is no server "c"; have a, b`},
		{"llm-drain a --pool other", "up", `there is no pool "other"; have default`},
		{"llm-drain a --limit 721h", "up", "the limit is 721h0m0s; have 0 for none, or up to 720h0m0s"},
		{"llm-drain a --limit 1h", "draining", ""},
		{"llm-drain " + a.addr() + " --wait --timeout 700ms", "draining", "not drained within 700ms: a has 1 open here"},
		{"llm-drain a --wait --limit 300ms", "draining", "the limit is over: a has 1 open here"},
		{"llm-reset a", "draining", ""},
		{"llm-resume " + a.addr() + " --wait", "up", ""},
		{"llm-resume a", "up", ""},
		{"llm-drain a", "draining", ""},
	} {
		err := g.command(test.line)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s: %v, want %q", test.line, err, test.says)
		}
		if row := g.endpoint("a"); row.State != test.state {
			t.Errorf("after %s it is %s (%s), want %s", test.line, row.State, row.Reason, test.state)
		}
	}
	openA()
	finish()
	if err := g.command("llm-drain a b --wait --timeout 10s"); err != nil {
		t.Error(err)
	}
	if row := g.endpoint("b"); row.State != "drained" {
		t.Errorf("b is %s", row.State)
	}
	if err := g.load("llm_proxy " + a.addr() + " {\n" + fast + "endpoint " + a.addr() + " {\nname a\ndrain\n}\n}\n"); err != nil {
		t.Fatal(err)
	}
	if err := g.command("llm-resume a"); err == nil || !strings.Contains(err.Error(), "the configuration drains it") {
		t.Errorf("resumed against the configuration: %v", err)
	}
}
