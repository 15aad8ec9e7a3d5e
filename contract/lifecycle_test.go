package contract

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/prometheus/client_golang/prometheus"
)

// A policy finds the upstreams it is to watch in its parent, so they are listed
// once. The hosts and the default transport come only later.
func TestModulesInProvisionContainParentHandlerWithUpstreams(t *testing.T) {
	var dials []string
	var host *reverseproxy.Host
	var stock http.RoundTripper
	load(t, []object{proxyTo(t, hooks{
		choose: first,
		provision: func(ctx caddy.Context) error {
			proxied := parent(ctx)
			if proxied == nil {
				return errors.New("no reverse_proxy handler among ctx.Modules()")
			}
			for _, u := range proxied.Upstreams {
				dials = append(dials, u.Dial)
				host = u.Host
			}
			stock = proxied.Transport
			return nil
		},
	}, nil, "127.0.0.1:1", "127.0.0.1:2")})

	if !slices.Equal(dials, []string{"127.0.0.1:1", "127.0.0.1:2"}) {
		t.Errorf("the parent's upstreams are %q", dials)
	}
	if host != nil || stock != nil {
		t.Errorf("host %v and transport %v are there in Provision already", host, stock)
	}
}

// The policy alone is enough to bring up the app that scrapes.
func TestAppFromPolicyIsStartedUnconfigured(t *testing.T) {
	var brought *app
	var startedInProvision int64
	load(t, []object{proxyTo(t, hooks{
		choose: first,
		provision: func(ctx caddy.Context) error {
			found, err := ctx.App("contract")
			if err != nil {
				return err
			}
			brought = found.(*app)
			startedInProvision = brought.starts.Load()
			return nil
		},
	}, nil, "127.0.0.1:1")})

	if startedInProvision != 0 {
		t.Error("the app was started before the policy was provisioned")
	}
	if got := brought.starts.Load(); got != 1 {
		t.Errorf("the app was started %d times, want once", got)
	}
	found, err := caddy.ActiveContext().AppIfConfigured("contract")
	if err != nil || found != any(brought) {
		t.Errorf("the admin API would find %v (%v), want the app that the policy brought up", found, err)
	}
}

// A metric that is registered once per process vanishes at the first reload.
func TestMetricsRegistryIsNewPerConfig(t *testing.T) {
	const name = "contract_pinned"
	var registries []*prometheus.Registry
	probe := hooks{provision: func(ctx caddy.Context) error {
		registry := ctx.GetMetricsRegistry()
		registries = append(registries, registry)
		return registry.Register(prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: "Pinned."}))
	}}
	named := object{"contract": object{"hooks": register(t, probe)}}
	load(t, nil, named)
	load(t, nil, named)

	if len(registries) != 2 || registries[0] == registries[1] {
		t.Fatalf("two configs had %d registries, or the same one", len(registries))
	}
}

// Both generations live for a while: the new one starts before the old stops,
// so state that a reload must keep is acquired before it is released.
func TestNewGenerationStartsBeforeOldStops(t *testing.T) {
	var events recorder[string]
	generation := func(n string) object {
		note := func(what string) func() error {
			return func() error {
				events.add(n + " " + what)
				return nil
			}
		}
		return object{"contract": object{"hooks": register(t, hooks{
			provision: func(caddy.Context) error { return note("provision")() },
			start:     note("start"),
			stop:      note("stop"),
			cleanup:   note("cleanup"),
		})}}
	}
	load(t, nil, generation("old"))
	load(t, nil, generation("new"))

	want := []string{"old provision", "old start", "new provision", "new start", "old stop", "old cleanup"}
	if got := events.list(); !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}

// A config that fails to start gets its Cleanup, never its Stop, and the one
// before goes on serving.
func TestConfigThatFailsToStartLeavesTheOldOne(t *testing.T) {
	var events recorder[string]
	url := load(t, []object{{"handler": "static_response", "body": "old"}})
	err := tryLoad(t, []object{{"handler": "static_response", "body": "new"}}, object{"contract": object{
		"hooks": register(t, hooks{
			start: func() error { return errors.New("port is taken") },
			stop: func() error {
				events.add("stop")
				return nil
			},
			cleanup: func() error {
				events.add("cleanup")
				return nil
			},
		}),
	}})

	if err == nil || !strings.Contains(err.Error(), "port is taken") {
		t.Errorf("loading gave %v, want the app's own error", err)
	}
	if got := post(t, url, "").body; got != "old" {
		t.Errorf("the old config answers %q, want old", got)
	}
	if got := events.list(); !slices.Equal(got, []string{"cleanup"}) {
		t.Errorf("the failed app saw %q, want only its cleanup", got)
	}
}

// Cleanup is also called for a module whose Provision failed, so it must
// release exactly what that Provision had acquired by then.
func TestCleanupIsCalledAfterFailedProvision(t *testing.T) {
	var events recorder[string]
	err := tryLoad(t, nil, object{"contract": object{"hooks": register(t, hooks{
		provision: func(caddy.Context) error { return errors.New("no such pool") },
		cleanup: func() error {
			events.add("cleanup")
			return nil
		},
	})}})
	if err == nil {
		t.Fatal("the config was loaded although a module refused it")
	}
	if got := events.list(); !slices.Equal(got, []string{"cleanup"}) {
		t.Errorf("the refusing module saw %q, want its cleanup once", got)
	}
}

// "caddy validate" on a machine that serves must not open connections, so
// nothing may begin in Provision.
func TestValidateNeverStarts(t *testing.T) {
	var events recorder[string]
	note := func(what string) func() error {
		return func() error {
			events.add(what)
			return nil
		}
	}
	cfg := config(t, nil, object{"contract": object{"hooks": register(t, hooks{
		provision: func(caddy.Context) error { return note("provision")() },
		start:     note("start"),
		stop:      note("stop"),
		cleanup:   note("cleanup"),
	})}})
	if err := caddy.Validate(decode(t, cfg)); err != nil {
		t.Fatalf("validating: %v", err)
	}
	if got := events.list(); !slices.Equal(got, []string{"provision", "cleanup"}) {
		t.Errorf("validation did %q, want provision and cleanup", got)
	}
}

// Whatever an open stream needs must outlive the Cleanup of its config: the
// reload does not wait for it.
func TestCleanupRunsWhileStreamsGoOn(t *testing.T) {
	finish := make(chan struct{})
	server := backend(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: one\n\n")
		_ = http.NewResponseController(w).Flush()
		<-finish
		_, _ = io.WriteString(w, "data: two\n\n")
	})
	cleaned := make(chan struct{})
	url := load(t, []object{proxyTo(t, hooks{
		choose:  first,
		cleanup: func() error { close(cleaned); return nil },
	}, nil, server.URL)})

	res, err := client(t).Post(url, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	one := make([]byte, len("data: one\n\n"))
	if _, err := io.ReadFull(res.Body, one); err != nil {
		t.Fatalf("reading the stream's beginning: %v", err)
	}

	load(t, nil)
	await(t, "the cleanup of the old config", cleaned)
	close(finish)

	rest, err := io.ReadAll(res.Body)
	if err != nil || string(rest) != "data: two\n\n" {
		t.Errorf("after the reload the stream went on with %q and ended with %v", rest, err)
	}
}
