package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// diary is Caddy's own log, in which the gateway tells what it sees.
type diary string

// keeps runs the site with a diary. Whatever else a site cannot say may be changed
// in its configuration.
func (g *gateway) keeps(t *testing.T, site string, change func(server map[string]any)) diary {
	t.Helper()
	d := diary(filepath.Join(t.TempDir(), "caddy.log"))
	g.configured(t, site, func(config map[string]any) {
		config["logging"] = map[string]any{"logs": map[string]any{"default": map[string]any{
			"writer": map[string]any{"output": "file", "filename": string(d)}, "encoder": map[string]any{"format": "json"},
		}}}
		if change == nil {
			return
		}
		for _, server := range config["apps"].(map[string]any)["http"].(map[string]any)["servers"].(map[string]any) {
			change(server.(map[string]any))
		}
	})
	return d
}

// lines returns what was told so far with these words, and of whom.
func (d diary) lines(t *testing.T, words string, of map[string]any) (list []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(string(d))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) != nil || !strings.Contains(fmt.Sprint(entry["msg"]), words) {
			continue
		}
		meant := true
		for field, value := range of {
			meant = meant && entry[field] == value
		}
		if meant {
			list = append(list, entry)
		}
	}
	return list
}

// A class goes by a header, and the server trusts no proxy: nobody may send that
// header. The operator reads so as soon as the configuration is loaded, and reads
// nothing where somebody is trusted.
func TestAClassThatNobodyCanClaimIsTold(t *testing.T) {
	a := newBackend(t)
	site := fmt.Sprintf("llm_proxy %s {\n%sclass interactive\nclass background {\nheader X-Class background\n}\n}\n", a.addr(), fast)
	for name, tc := range map[string]struct {
		change func(server map[string]any)
		lines  int
	}{
		"nobody is trusted": {nil, 1},
		"this machine is": {func(server map[string]any) {
			server["trusted_proxies"] = map[string]any{"source": "static", "ranges": []string{"127.0.0.1/32"}}
		}, 0},
		"a local proxy is": {func(server map[string]any) { server["trusted_proxies_unix"] = true }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			g := start(t, "respond ok\n")
			told := g.keeps(t, site, tc.change).lines(t, "trusted_proxies", map[string]any{"class": "background"})
			if len(told) != tc.lines {
				t.Fatalf("%d lines about it, want %d: %v", len(told), tc.lines, told)
			}
			for _, line := range told {
				if line["level"] != "warn" || line["header"] != "X-Class" || line["server"] == "" {
					t.Errorf("told as %v, want a warning with the header and the server", line)
				}
			}
		})
	}
}

// One server is up, one refuses, one has a name that nobody knows. The gateway
// starts, serves all from the first, and says of each of the others once that it is
// gone, and why.
func TestDeadServersAreToldAndNotFatal(t *testing.T) {
	a := newBackend(t)
	dead, nameless := freeAddr(t), "no-such-host.invalid:8000"
	g := start(t, "respond ok\n")
	d := g.keeps(t, fmt.Sprintf("llm_proxy %s %s %s {\nscrape_interval 200ms\nendpoint %s {\nname a\n}\nendpoint %s {\nname dead\n}\nendpoint %s {\nname nameless\n}\n}\n",
		a.addr(), dead, nameless, a.addr(), dead, nameless), nil)
	for i := range 10 {
		if r, err := g.ask(http.DefaultClient, distinct(i)); err != nil || r.status != http.StatusOK || r.endpoint() != "a" {
			t.Errorf("status %d from %q, %v: %s", r.status, r.endpoint(), err, r.body)
		}
	}
	for name, address := range map[string]string{"dead": dead, "nameless": nameless} {
		of := map[string]any{"endpoint": name, "address": address, "to": "down"}
		eventually(t, name+" to be told as down", func() bool { return len(d.lines(t, "state", of)) > 0 })
		for range 3 {
			a.seen() // a few more scrapes of everybody
		}
		told := d.lines(t, "state", of)
		if len(told) != 1 || told[0]["level"] != "warn" || told[0]["reason"] == nil {
			t.Errorf("%s is told %d times: %v; want one warning with a reason", name, len(told), told)
		}
		if row := g.endpoint(name); row.State != "down" || row.Reason == "" {
			t.Errorf("%s is shown as %s (%s), want down and why", name, row.State, row.Reason)
		}
	}
	if row := g.endpoint("a"); row.State != "up" {
		t.Errorf("the server that is well is %s (%s)", row.State, row.Reason)
	}
}
