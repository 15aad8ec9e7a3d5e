package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const simulatorModule = "github.com/llm-d/llm-d-inference-sim"

// simulator is one running vLLM simulator of the llm-d project: vLLM's API,
// metric names and prefix cache, with computed instead of real latencies.
//
// What to know about it:
//   - it has no option for the address: it listens on every interface;
//   - every answer carries X-Inference-Pod, so a test sees who served;
//   - its load can be dictated over POST /admin/config, but only if it was
//     started with --fake-metrics: otherwise that is a 400;
//   - a client that leaves does not free its slot;
//   - a full queue answers a stream with 200 and one error event.
type simulator struct {
	name string
	port int
	pid  int
}

func (s simulator) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// load is what a simulator pretends to have to do.
type load struct {
	Running int     `json:"running-requests"`
	Waiting int     `json:"waiting-requests"`
	KV      float64 `json:"kv-cache-usage"` // 0 to 1
}

// startSimulator runs a simulator that has a prefix cache, reports itself idle,
// and can be told to report another load.
func startSimulator(t *testing.T, name string) simulator {
	t.Helper()
	idle, err := json.Marshal(load{})
	if err != nil {
		t.Fatal(err)
	}
	return runSimulator(t, name,
		"--model", "sim-model", "--force-dummy-tokenizer", "--seed", "1",
		"--max-num-seqs", "4", "--max-waiting-queue-length", "8", "--max-model-len", "8192",
		"--enable-kvcache", "--kv-cache-size", "1024", "--block-size", "16", "--zmq-endpoint", "",
		"--latency-calculator", "per-token", "--prefill-overhead", "20ms", "--prefill-time-per-token", "500us",
		"--inter-token-latency", "10ms", "--time-factor-under-load", "2.0",
		"--fake-metrics", string(idle),
	)
}

// runSimulator runs a simulator until the test ends, and waits until it serves.
func runSimulator(t *testing.T, name string, args ...string) simulator {
	t.Helper()
	s := simulator{name: name, port: freePort(t)}
	s.pid = spawn(t, name, []string{"POD_IP=127.0.0.1", "POD_NAME=" + name}, buildSimulator(t),
		append([]string{"--port", fmt.Sprint(s.port)}, args...)...)
	eventually(t, name+" to be ready", func() error {
		_, err := get(t, "http://"+s.address()+"/health/ready")
		return err
	})
	return s
}

// pretend makes the simulator report this load from now on.
func (s simulator) pretend(t *testing.T, l load) {
	t.Helper()
	body, err := json.Marshal(map[string]load{"fake-metrics": l})
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Timeout: limit}
	res, err := client.Post("http://"+s.address()+"/admin/config", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatalf("setting the load of %s: %v", s.name, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatalf("setting the load of %s: it answered %s", s.name, res.Status)
	}
}

// buildSimulator builds the simulator once per version and user: it takes three
// minutes on two cores when nothing is cached.
func buildSimulator(t *testing.T) string {
	t.Helper()
	binary, err := builtSimulator()
	if err != nil {
		t.Fatalf("building the simulator: %v", err)
	}
	return binary
}

var builtSimulator = sync.OnceValues(func() (string, error) {
	list := exec.Command("go", "list", "-m", "-f", "{{.Version}}", simulatorModule)
	list.Dir = "sim"
	version, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("asking for its version: %w", err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	dir := filepath.Join(cache, "caddy-llmlb")
	binary := filepath.Join(dir, "llm-d-inference-sim-"+strings.TrimSpace(string(version)))
	if _, err := os.Stat(binary); err == nil {
		return binary, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	// Under another name first, so that an interrupted build leaves no half binary.
	unfinished := fmt.Sprintf("%s.%d", binary, os.Getpid())
	if err := goBuild("sim", unfinished, simulatorModule+"/cmd/llm-d-inference-sim", "CGO_ENABLED=0"); err != nil {
		return "", err
	}
	return binary, os.Rename(unfinished, binary)
})

// Before anything is said about the gateway: the simulator itself has a prefix
// cache that shows in the answers, and reports the load it was told.
func TestSimulatorCachesPrefixesAndReportsTheLoadItIsTold(t *testing.T) {
	need(t)
	sim := startSimulator(t, "sim-alone")

	cold := ask(t, sim.address(), "first question")
	warm := ask(t, sim.address(), "second question")
	if cold.pod != sim.name || cold.cached != 0 {
		t.Errorf("the first answer is from %q with %d cached tokens, want none from %q", cold.pod, cold.cached, sim.name)
	}
	if warm.cached <= 350 {
		t.Errorf("the second answer has %d of %d prompt tokens cached, want over 350", warm.cached, warm.prompt)
	}
	if cold.text == "" || warm.text == "" {
		t.Error("a stream brought no text")
	}

	sim.pretend(t, load{Running: 4, Waiting: 30, KV: 0.4})
	eventually(t, "the metrics to tell the load", func() error {
		page, err := get(t, "http://"+sim.address()+"/metrics")
		if err != nil {
			return err
		}
		if want := `vllm:num_requests_waiting{model_name="sim-model"} 30`; !strings.Contains(page, want) {
			return fmt.Errorf("no line %s", want)
		}
		return nil
	})
}
