package caddyfile

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A client that stops reading is cut off after a minute without any option of
// ours: what the reference says of write_timeout rests on Caddy's own default.
func TestCaddyCutsOffClientsThatDoNotReadAfterAMinute(t *testing.T) {
	cfg, err := adapt("{\n\tadmin off\n}\nhttp://:8080 {\n\tllm_proxy 10.4.0.11:8000\n}\n")
	if err != nil {
		t.Fatal(err)
	}
	var c caddy.Config
	if err := caddy.StrictUnmarshalJSON(cfg, &c); err != nil {
		t.Fatal(err)
	}
	ctx, err := caddy.ProvisionContext(&c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	app, err := ctx.App("http")
	if err != nil {
		t.Fatal(err)
	}
	for name, server := range app.(*caddyhttp.App).Servers {
		if got := time.Duration(server.WriteIdleTimeout); got != time.Minute || server.WriteTimeout != 0 {
			t.Errorf("%s: write_idle_timeout %v, write_timeout %v; want a minute and none", name, got, server.WriteTimeout)
		}
	}
}
