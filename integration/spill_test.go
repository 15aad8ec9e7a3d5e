package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

// gatewayConfig is what an operator would write, with faster scrapes.
const gatewayConfig = `{
	admin off
	auto_https off
	persist_config off
	default_bind 127.0.0.1
}

http://%[1]s {
	llm_proxy %[2]s %[3]s {
		strategy        %[4]s
		scrape_interval 200ms
		stale_after     2s
	}
}
`

// startGateway runs Caddy with this project's module in front of two simulators
// and returns the address it serves at.
func startGateway(t *testing.T, strategy string, a, b simulator) string {
	t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	runGateway(t, address, fmt.Sprintf(gatewayConfig, address, a.address(), b.address(), strategy))
	return address
}

// runGateway runs Caddy with this project's module and a Caddyfile, until the
// test ends, and waits until it serves at address.
func runGateway(t *testing.T, address, caddyfile string) {
	t.Helper()
	caddy, err := builtGateway()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "Caddyfile")
	if err := os.WriteFile(config, []byte(caddyfile), 0o600); err != nil {
		t.Fatal(err)
	}
	spawn(t, "the gateway", []string{"HOME=" + dir, "XDG_DATA_HOME=" + dir, "XDG_CONFIG_HOME=" + dir},
		caddy, "run", "--config", config)
	eventually(t, "the gateway to serve", func() error {
		_, err := get(t, "http://"+address+"/v1/models")
		return err
	})
}

var builtGateway = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "caddy-llmlb-")
	if err != nil {
		return "", err
	}
	removeAtEnd = append(removeAtEnd, dir)
	binary := filepath.Join(dir, "caddy")
	return binary, goBuild("..", binary, "./cmd/caddy")
})

// removeAtEnd are folders that all tests share.
var removeAtEnd []string

func TestMain(m *testing.M) {
	status := m.Run()
	for _, dir := range removeAtEnd {
		_ = os.RemoveAll(dir)
	}
	os.Exit(status)
}

// What the gateway is for, seen from a client: requests that share a preamble
// meet where it is cached, until that server has a queue.
func TestPreambleFollowsItsCacheUntilThatPodQueues(t *testing.T) {
	need(t)
	for strategy, reason := range map[string]string{"work": "spill:load", "prefix_spill": "spill:waiting"} {
		t.Run(strategy, func(t *testing.T) { followAndLeave(t, strategy, reason) })
	}
}

func followAndLeave(t *testing.T, strategy, reason string) {
	pods := map[string]simulator{}
	for _, name := range []string{"sim-1", "sim-2"} {
		pods[name] = startSimulator(t, name)
	}
	gateway := startGateway(t, strategy, pods["sim-1"], pods["sim-2"])

	cold := ask(t, gateway, "What is asked first?")
	home, known := pods[cold.pod]
	if !known {
		t.Fatalf("the first request was served by %q, which is no pod of ours", cold.pod)
	}
	if cold.cached != 0 || cold.decision != "cold" {
		t.Errorf("the first request was %q with %d cached tokens, want cold with none", cold.decision, cold.cached)
	}

	// Different questions, so that nothing but the preamble leads them home.
	for i := range 4 {
		warm := ask(t, gateway, fmt.Sprintf("%d more things are asked.", i+2))
		if warm.pod != home.name || warm.decision != "warm" {
			t.Errorf("follow-up %d went to %s as %q, want %s as warm", i+1, warm.pod, warm.decision, home.name)
		}
		if warm.cached <= 350 {
			t.Errorf("follow-up %d had %d of %d prompt tokens cached, want over 350", i+1, warm.cached, warm.prompt)
		}
	}

	home.pretend(t, load{Running: 4, Waiting: 30, KV: 0.4})
	// Until the next scrape the gateway cannot know, so requests may still go home.
	eventually(t, "a request to leave the pod that queues", func() error {
		spilled := ask(t, gateway, "What is asked while the pod queues?")
		if spilled.pod == home.name {
			return fmt.Errorf("it went to %s as %q", spilled.pod, spilled.decision)
		}
		if spilled.decision != reason {
			t.Errorf("the request that left %s did so as %q, want %s", home.name, spilled.decision, reason)
		}
		return nil
	})
}
