package loadgen

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

// given is the flags of a command line.
func given(t *testing.T, args ...string) caddycmd.Flags {
	t.Helper()
	cmd := &cobra.Command{}
	command.CobraFunc(cmd)
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	return caddycmd.Flags{FlagSet: cmd.Flags()}
}

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "scenario.json")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Without a flag the load is small and ends by itself.
func TestDefaults(t *testing.T) {
	s, err := scenario(given(t))
	if err != nil {
		t.Fatal(err)
	}
	if s.open() || s.Clients != 20 || s.Duration != Duration(30*time.Second) || s.Requests != 100_000 || s.Timeout != Duration(2*time.Minute) || s.API != chat {
		t.Errorf("%+v", s)
	}
	// A second run does not find its prompts in the caches.
	if again, err := scenario(given(t)); err != nil || again.Seed == s.Seed {
		t.Errorf("the seed is %d again, %v", again.Seed, err)
	}
	if len(s.Classes) != 1 || s.Classes[0].Input.String() != "512" || s.Classes[0].Output.String() != "128" || s.Classes[0].SLOTTFT != Duration(2*time.Second) {
		t.Errorf("%+v", s.Classes)
	}
}

// A file and flags that say the same are the same.
func TestFileAndFlagsAgree(t *testing.T) {
	flags, err := scenario(given(t, "-m", "m", "-r", "2-20", "--ramp", "5s", "-d", "1m", "--tenants", "3", "-H", "X-A: 1", "--slo-ttft", "1s", "-i", "exp:300", "--seed", "4",
		"--class", "edit,share=0.4,input=200,header=X-Class: interactive", "--class", "summary, share=0.6, output=100-400, slo_ttft=60s, tenant=7"))
	if err != nil {
		t.Fatal(err)
	}
	scenarioFile := file(t, `{"model": "m", "rate": "2-20", "ramp": "5s", "duration": "1m", "tenants": 3, "headers": ["X-A: 1"], "slo_ttft": "1s", "input": "exp:300", "seed": 4,
		"classes": [
			{"name": "edit", "share": 0.4, "input": 200, "header": "X-Class: interactive"},
			{"name": "summary", "share": 0.6, "output": "100-400", "slo_ttft": "60s", "tenant": "7"}]}`)
	read, err := scenario(given(t, "-s", scenarioFile))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(flags, read) {
		t.Errorf("flags:\n%+v\nfile:\n%+v", flags, read)
	}
	if c := read.Classes[1]; c.Input.String() != "exp:300" || c.Output.String() != "100-400" || c.SLOTTFT != Duration(time.Minute) {
		t.Errorf("summary is %+v", c)
	}

	// The flags have the last word, even on which loop it is.
	over, err := scenario(given(t, "-s", scenarioFile, "-c", "5", "--seed", "9", "--completions"))
	if err != nil {
		t.Fatal(err)
	}
	if over.open() || over.Clients != 5 || over.Seed != 9 || over.API != completions || over.Tenants != 3 {
		t.Errorf("%+v", over)
	}
}

// Each error names what is wrong and what may stand there.
func TestWrongFlags(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"--rate", "5", "--clients", "5"}, "--rate makes an open loop"},
		{[]string{"--rate", "5", "--turns", "3"}, "turns are for a closed loop"},
		{[]string{"--rate", "0"}, "nothing would be sent"},
		{[]string{"--rate", "x"}, "2-20"},
		{[]string{"--rate", "1-5"}, "have a ramp"},
		{[]string{"--rate", "5", "--ramp", "1m"}, "ramp 1m0s is longer than duration 30s"},
		{[]string{"--max-open", "5"}, "have a rate"},
		{[]string{"--clients", "0"}, "--clients 0"},
		{[]string{"--clients", "60000"}, "1 to 50000"},
		{[]string{"--duration", "0s"}, "--duration"},
		{[]string{"--think", "-1s"}, "--think"},
		{[]string{"--input", "many"}, "exp:512"},
		{[]string{"--tenants", "5000"}, "0 to 1000"},
		{[]string{"--tenant-header", "X-Tenant: t"}, "{tenant}"},
		{[]string{"-H", "no colon"}, "Name: value"},
		{[]string{"--class", "a,size=5"}, "share"},
		{[]string{"--class", "a,input=x"}, "--class"},
		{[]string{"--class", "a", "--class", "a"}, "twice"},
		{[]string{"--class", "a,share=-1"}, "share -1"},
		{[]string{"-s", "/nowhere"}, "reading the scenario"},
		{[]string{"-s", file(t, `{"clints": 5}`)}, "clints"},
		{[]string{"-s", file(t, `{} {}`)}, "more follows"},
		{[]string{"-s", file(t, `{"classes": [{"share": 1}]}`)}, "has no name"},
		{[]string{"-s", file(t, `{"name": "x"}`)}, "belong into a class"},
		{[]string{"-s", file(t, `{"duration": "long"}`)}, "long"},
		{[]string{"-s", file(t, `{"api": "telepathy"}`)}, "chat or completions"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			s, err := scenario(given(t, tc.args...))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, %+v; expected an error with %q", err, s, tc.want)
			}
		})
	}
}

// What cannot work is said before anything is sent.
func TestWrongCommands(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
	}{
		{nil, "have one target"},
		{[]string{"http://127.0.0.1:1", "http://127.0.0.1:2"}, "have one target"},
		{[]string{"http://192.0.2.1"}, "--yes-remote"},
		{[]string{"http://127.0.0.1:1", "--json", "/nowhere/x.json"}, "/nowhere/x.json"},
		{[]string{"http://127.0.0.1:1", "--api-key-env", "NO_SUCH_VARIABLE_HERE"}, "NO_SUCH_VARIABLE_HERE"},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			var out bytes.Buffer
			err := load(given(t, tc.args...), &out, os.Stderr)
			if err == nil || !strings.Contains(err.Error(), tc.want) || out.Len() > 0 {
				t.Errorf("got %v and printed %q; expected an error with %q", err, out.String(), tc.want)
			}
		})
	}
}

func TestFailOver(t *testing.T) {
	g := &Group{Offered: 200, Outcomes: map[string]int{OK: 180, Stopped: 10}}
	for limit, fails := range map[float64]bool{100: false, 5: false, 4.9: true, 0: true} {
		if err := tooManyFailed(g, limit); (err != nil) != fails {
			t.Errorf("--fail-over %v: %v", limit, err)
		}
	}
	if tooManyFailed(&Group{}, 100) == nil {
		t.Error("a run that sent nothing has succeeded")
	}
}
