package transport

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
)

// Every kind of option of Caddy's own transport works, before and after ours, and
// ends up in the JSON beside ours: flags, values, lists, blocks.
func TestBlockTakesCaddysOptionsAndOurs(t *testing.T) {
	for _, test := range []struct{ name, block, want string }{
		{"nothing", ``, `{"protocol":"llm"}`},
		{"ours", `headers off`, `{"headers":"off","protocol":"llm"}`},
		{"a size", `read_buffer 8KiB`, `{"protocol":"llm","read_buffer_size":8192}`},
		{"a duration", `dial_timeout 2s`, `{"dial_timeout":2000000000,"protocol":"llm"}`},
		{"a list", `versions 1.1 2`, `{"protocol":"llm","versions":["1.1","2"]}`},
		{"a flag", `tls`, `{"protocol":"llm","tls":{}}`},
		{"a switch", `compression off`, `{"compression":false,"protocol":"llm"}`},
		{"a nested value", `keepalive 10s`, `{"keep_alive":{"idle_timeout":10000000000},"protocol":"llm"}`},
		{
			"several", "tls_server_name gpu.internal\nheaders off\nkeepalive off\ntls_trusted_ca_certs a.pem b.pem",
			`{"headers":"off","keep_alive":{"enabled":false},"protocol":"llm","tls":{"root_ca_pem_files":["a.pem","b.pem"],"server_name":"gpu.internal"}}`,
		},
		{
			"a block", "tls_trust_pool file {\npem_file a.pem\n}\nheaders on",
			`{"headers":"on","protocol":"llm","tls":{"ca":{"pem_files":["a.pem"],"provider":"file"}}}`,
		},
		{"a module", "network_proxy url http://proxy:3128", `{"network_proxy":{"from":"url","url":"http://proxy:3128"},"protocol":"llm"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			block := ""
			if test.block != "" {
				block = " {\n" + test.block + "\n}"
			}
			adapted, _, err := caddyfile.Adapter{ServerType: httpcaddyfile.ServerType{}}.Adapt(
				[]byte("http://x {\nreverse_proxy a:1 {\ntransport llm"+block+"\n}\n}"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if want := `"transport":` + test.want; !strings.Contains(string(adapted), want) {
				t.Errorf("got %s, want %s", adapted, want)
			}
		})
	}
}

// The block of llm_proxy's transport option is the same one under another name.
func TestBlockMayHaveAnyName(t *testing.T) {
	var tr Transport
	d := caddyfile.NewTestDispenser("transport {\nread_timeout 10m\nheaders off\n}")
	if err := tr.UnmarshalCaddyfile(d); err != nil {
		t.Fatal(err)
	}
	if time.Duration(tr.ReadTimeout) != 10*time.Minute || tr.Headers != off {
		t.Errorf("read %v and %q", time.Duration(tr.ReadTimeout), tr.Headers)
	}
}

// A mistake is answered with the word, the line and what would have been right.
func TestBlockMistakes(t *testing.T) {
	for _, test := range []struct{ option, want string }{
		{"headers", "headers: want one of on, off"},
		{"failover", "failover: want one of no_token, unsent, off"},
		{"failover always", "'always' is unknown; have no_token, unsent, off"},
		{"first_token", "want 'off', or the least and the most time"},
		{"first_token 2s", "want 'off', or the least and the most time"},
		{"first_token on", "want 'off', or the least and the most time"},
		{"first_token 5s soon", "parsing 'soon'"},
		{"first_token 5s 1s", "5s, is longer than the most, 1s"},
		{"first_token 1ms 1s", "1ms is out of range"},
		{"stall_timeout", "want a duration such as 60s"},
		{"stall_timeout 48h", "48h0m0s is out of range"},
		{"error_event yes", "'yes' is neither 'on' nor 'off'"},
		{"headers maybe", "headers: 'maybe' is neither"},
		{"headers on off", "wrong argument count"},
		{"read_bufer 8KiB", "unrecognized subdirective read_bufer"},
		{"read_bufer 8KiB", "headers, stall_timeout and the options of 'transport http'"},
		{"dial_timeout soon", "dial_timeout: bad timeout value 'soon'"},
		{"tls_timeout soon", "tls_timeout: bad timeout value 'soon'"},
		{"keepalive soon", "keepalive: bad duration value 'soon'"},
		{"max_conns_per_host some", "max_conns_per_host: bad integer value 'some'"},
	} {
		var tr Transport
		err := tr.UnmarshalCaddyfile(caddyfile.NewTestDispenser("llm {\n" + test.option + "\n}"))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "Testfile:2") {
			t.Errorf("%s: got %v, want %q and the line", test.option, err, test.want)
		}
	}
	for _, config := range []Transport{
		{FirstToken: "yes"},
		{ErrorEvent: "1"},
		{Failover: "always"},
		{StallTimeout: caddy.Duration(time.Millisecond)},
		{FirstTokenMin: caddy.Duration(time.Minute), FirstTokenMax: caddy.Duration(time.Second)},
		{HTTPTransport: &reverseproxy.HTTPTransport{DialTimeout: -1}},
		{HTTPTransport: &reverseproxy.HTTPTransport{TLS: &reverseproxy.TLSConfig{HandshakeTimeout: -1}}},
	} {
		if err := config.Validate(); err == nil {
			t.Errorf("a JSON config with a wrong value is valid: %+v", config)
		}
	}
	if err := (&Transport{Headers: "x"}).Validate(); err == nil || !strings.Contains(err.Error(), "headers") {
		t.Errorf("a JSON config with a wrong value gave %v", err)
	}
}

// What is not said has the defaults that engines need; what is said stays.
func TestDefaults(t *testing.T) {
	tr := provisioned(t, `{}`)
	if len(tr.Versions) != 1 || tr.Versions[0] != "1.1" || tr.Transport.IdleConnTimeout != 4*time.Second {
		t.Errorf("versions %q, connections kept for %v", tr.Versions, tr.Transport.IdleConnTimeout)
	}
	if tr.fresh == nil || !tr.fresh.DisableKeepAlives || tr.Transport.DisableKeepAlives {
		t.Error("connections are reused where they should not be, or not where they should")
	}
	tr = provisioned(t, `{"versions":["2"],"keep_alive":{"idle_timeout":"1m"},"tls":{}}`)
	if tr.Versions[0] != "2" || tr.Transport.IdleConnTimeout != time.Minute || tr.fresh != nil {
		t.Errorf("versions %q, connections kept for %v", tr.Versions, tr.Transport.IdleConnTimeout)
	}
}

// The JSON of a transport loads again as the same.
func TestJSONIsInline(t *testing.T) {
	tr := Transport{HTTPTransport: &reverseproxy.HTTPTransport{MaxConnsPerHost: 3}, Headers: off}
	raw := caddyconfig.JSON(tr, nil)
	if want := `{"max_conns_per_host":3,"headers":"off"}`; string(raw) != want {
		t.Errorf("got %s, want %s", raw, want)
	}
	var again Transport
	if err := json.Unmarshal(raw, &again); err != nil || again.MaxConnsPerHost != 3 {
		t.Errorf("read again: %+v, %v", again.HTTPTransport, err)
	}
}
