package e2e

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// validated does what "caddy validate" does with a Caddyfile whose only site has
// this directive.
func validated(t *testing.T, directive string) error {
	t.Helper()
	text := "{\nadmin off\n}\n:8080 {\n" + directive + "\n}\n"
	config, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		return err
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(config, &c); err != nil {
		t.Fatalf("the adapted JSON cannot be read: %v", err)
	}
	return caddy.Validate(&c)
}

// proxyOptions asks llm_proxy itself which options it has.
func proxyOptions(t *testing.T) []string {
	t.Helper()
	err := validated(t, "llm_proxy 10.4.0.11:8000 {\nno_such_option\n}")
	if err == nil {
		t.Fatal("an unknown option was accepted")
	}
	list := regexp.MustCompile(`have (.*), and what reverse_proxy has`).FindStringSubmatch(err.Error())
	if list == nil {
		t.Fatalf("%v; want the options that there are", err)
	}
	return strings.Split(list[1], ", ")
}

// nonsense is what no option takes, but for those to which it is a name, a text or
// a number like any other.
var nonsense = []struct {
	value string
	fine  []string
}{
	{``, []string{"queue", "transport"}}, // which may have a block alone
	{`""`, nil},
	{`-1`, []string{"affinity_key", "deadline_header", "pool"}},
	{`-1s`, []string{"affinity_key", "deadline_header", "pool"}},
	{`0`, []string{"affinity_key", "deadline_header", "pool", "queue", "retries", "spill_ttft", "spill_waiting"}},
	{`NaN`, []string{"affinity_key", "class", "deadline_header", "pool"}},
	{`1e99`, []string{"affinity_key", "deadline_header", "pool"}},
	{`"x-fair id"`, []string{"affinity_key"}},
	{`x:y`, []string{"affinity_key", "pool"}},
	{"\"a\nb\"", nil},
	{`{http.request.host}`, []string{"affinity_key", "tenant"}},
	{`1 2 3 4 5 6 7 8`, nil},
	{"{\nno_such_line 1\n}", nil},
}

// No option takes what it cannot mean, to fail at the first request or to be
// something else in silence: "caddy validate" says which option it is.
func TestNoOptionTakesNonsense(t *testing.T) {
	options := proxyOptions(t)
	if len(options) < 30 {
		t.Fatalf("options are %q: too few to be all", options)
	}
	for _, option := range options {
		t.Run(option, func(t *testing.T) {
			for _, n := range nonsense {
				err := validated(t, "llm_proxy 10.4.0.11:8000 10.4.0.12:8000 {\n"+option+" "+n.value+"\n}")
				switch fine := slices.Contains(n.fine, option); {
				case fine && err != nil:
					t.Errorf("%q is refused: %v", n.value, err)
				case !fine && err == nil:
					t.Errorf("%q is accepted", n.value)
				case !fine && !strings.Contains(err.Error(), option):
					t.Errorf("%q: the error does not name the option: %v", n.value, err)
				}
			}
		})
	}
}

// Mistakes that would break every request, or none until the load comes, are found
// before anything is loaded. Each error names what to look at.
func TestMistakesThatWouldBreakRequestsLater(t *testing.T) {
	const servers = "10.4.0.11:8000 10.4.0.12:8000"
	endpoint := func(line string) string { return "endpoint 10.4.0.11:8000 {\n" + line + "\n}" }
	for _, tc := range []struct {
		name, upstreams, lines string
		want                   []string
	}{
		// Names of header fields.
		{"a tenant's header with a space", servers, `tenant "{http.request.header.x-fair id}"`, []string{"tenant", "x-fair id"}},
		{"a tenant's header with a space, in short", servers, `tenant "{header.x-fair id}"`, []string{"tenant", "x-fair id"}},
		{"a tenant's header with a colon", servers, `tenant {http.request.header.x:y}`, []string{"tenant", "x:y"}},
		{"a tenant's header without a name", servers, `tenant {http.request.header.}`, []string{"tenant"}},
		{"no tenant", servers, `tenant ""`, []string{"tenant"}},
		{"a tenant over two lines", servers, "tenant \"{http.request.header.x-fair}\n\"", []string{"tenant"}},
		{"a class's header with a space", servers, "class a {\nheader \"x-fair id\" v\n}", []string{"class", "header", "x-fair id"}},
		{"a class's header with a colon", servers, "class a {\nheader x:y v\n}", []string{"class", "header", "x:y"}},
		{"a class's header without a name", servers, "class a {\nheader \"\" v\n}", []string{"class", "header"}},
		{"a class's header over two lines", servers, "class a {\nheader \"x\ny\" v\n}", []string{"class", "header"}},
		{"a class's value over two lines", servers, "class a {\nheader x \"v\nw\"\n}", []string{"class", "header"}},
		{"a deadline's header with a space", servers, `deadline_header "x-fair id"`, []string{"deadline_header", "x-fair id"}},
		{"a deadline's header with a colon", servers, `deadline_header x:y`, []string{"deadline_header", "x:y"}},
		{"a key over two lines", servers, "upstream_auth bearer \"a\nb\"", []string{"upstream_auth"}},

		// Times below zero.
		{"scrapes before the last", servers, "scrape_interval -1s", []string{"scrape_interval", "-1s"}},
		{"numbers older than they can be", servers, "stale_after -1s", []string{"stale_after", "-1s"}},
		{"a negative body_timeout", servers, "body_timeout -1s", []string{"body_timeout", "-1s"}},
		{"a negative first_token", servers, "first_token -1s 60s", []string{"first_token", "-1s"}},
		{"a negative end of first_token", servers, "first_token 1s -60s", []string{"first_token", "-1m0s"}},
		{"a negative stall_timeout", servers, "stall_timeout -1s", []string{"stall_timeout", "-1s"}},
		{"a negative write_timeout", servers, "write_timeout -1s", []string{"write_timeout", "-1s"}},
		{"a negative heartbeat", servers, "heartbeat -1s", []string{"heartbeat", "-1s"}},
		{"a negative spill_ttft", servers, "spill_ttft -1s", []string{"spill_ttft", "-1s"}},
		{"a negative wait", servers, "queue {\nmax_wait -1s\n}", []string{"queue", "max_wait", "-1s"}},
		{"a class's negative wait", servers, "class a {\nmax_wait -1s\n}", []string{"class", "max_wait", "-1s"}},
		{"a class's negative deadline", servers, "class a {\ndeadline -1s\n}", []string{"class", "deadline", "-1s"}},
		{"a circuit open for less than no time", servers, "circuit {\nopen_for -1s\n}", []string{"circuit", "open_for", "-1s"}},
		{"a negative dial_timeout", servers, "transport {\ndial_timeout soon\n}", []string{"dial_timeout", "soon"}},

		// Limits that let nothing pass.
		{"no requests at a server", servers, endpoint("max_concurrent 0"), []string{"max_concurrent", "'0'"}},
		{"fewer than none at a server", servers, endpoint("max_concurrent -1"), []string{"max_concurrent", "-1"}},
		{"no tokens at a server", servers, endpoint("max_tokens 0"), []string{"max_tokens", "'0'"}},
		{"no weight", servers, endpoint("weight 0"), []string{"weight", "'0'"}},
		{"no requests of a tenant", servers, "tenant {http.auth.user.id}\ntenant_limit concurrent 0", []string{"tenant_limit", "'0'"}},
		{"no tokens of a tenant", servers, "tenant {http.auth.user.id}\ntenant_limit tokens_per_minute 0", []string{"tenant_limit", "'0'"}},
		{"no requests of a client", servers, "client_limit concurrent 0", []string{"client_limit", "'0'"}},
		{"no memory", servers, "kv_limit 0%", []string{"kv_limit", "0%"}},
		{"no body", servers, "max_body 0", []string{"max_body", "'0'"}},
		{"a queue below nothing", servers, "queue -1", []string{"queue", "-1"}},
		{"a queue of no bytes", servers, "queue {\nmax_bytes 0\n}", []string{"queue", "max_bytes"}},
		{"a queue of no tokens", servers, "queue {\nmax_tokens 0\n}", []string{"queue", "max_tokens"}},
		{"retries below nothing", servers, "retries -1", []string{"retries", "-1"}},
		{"a circuit that opens at once", servers, "circuit {\nfailures 0\n}", []string{"circuit", "failures", "'0'"}},

		// Pools.
		{"a pool of nobody", "", "strategy work", []string{"llm_proxy has no upstream"}},
		{"a pool of nothing", `""`, "strategy work", []string{"upstream is empty"}},
		{"one server twice", "10.4.0.11:8000 10.4.0.11:8000", "strategy work", []string{"'10.4.0.11:8000' is listed twice"}},
		{"one server twice, once with its scheme", strings.TrimSpace(strings.Repeat("http://10.4.0.11:8000 ", 2)), "strategy work", []string{"10.4.0.11:8000' is listed twice"}},
		{"one server twice, once in a range", "10.4.0.11:8000-8002 10.4.0.11:8001", "strategy work", []string{"'10.4.0.11:8001' is listed twice"}},
		{"one server twice, once with to", "10.4.0.11:8000", "to 10.4.0.11:8000", []string{"'10.4.0.11:8000' is listed twice"}},
		{"a server with a path", "http://10.4.0.11:8000/v1", "strategy work", []string{"upstream 'http://10.4.0.11:8000/v1'", "leave '/v1' out"}},
		{"a server with a slash", "http://10.4.0.11:8000/", "strategy work", []string{"upstream 'http://10.4.0.11:8000/'", "leave '/' out"}},
		{"a server with a path, with to", "", "to http://10.4.0.11:8000/v1", []string{"upstream 'http://10.4.0.11:8000/v1'", "leave '/v1' out"}},
		{"options for a server that is not there", servers, "endpoint 10.4.0.99:8000 {\ndrain\n}", []string{"endpoint", "10.4.0.99:8000"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := validated(t, "llm_proxy "+tc.upstreams+" {\n"+tc.lines+"\n}")
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not name %s", err, want)
				}
			}
		})
	}
}
