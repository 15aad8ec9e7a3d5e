package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

// rigConfig is a gateway before two servers, with the admin API that tells what
// is still reserved.
const rigConfig = `{
	admin 127.0.0.1:%[1]d
	auto_https off
	persist_config off
	default_bind 127.0.0.1
}

http://%[2]s {
	llm_proxy %[3]s %[4]s {
		endpoint %[3]s {
			name a
		}
		endpoint %[4]s {
			name b
		}
		%[5]s
	}
}
`

// pace is how fast simulators answer: the time to the first token, how much it
// differs between requests, and the time between tokens.
type pace struct{ first, spread, between string }

// quick begins soon and lasts long enough to be cut.
var quick = pace{first: "100ms", spread: "0s", between: "50ms"}

// rig is a gateway between clients and two simulators that echo. A stands behind
// a toxiproxy.
type rig struct {
	gateway string // address
	admin   string // address
	a, b    simulator
	toxic   toxic
}

// startRig runs all of it until the test ends. options are more lines of
// llm_proxy.
func startRig(t *testing.T, p pace, options string) rig {
	t.Helper()
	admin := freePort(t)
	r := rig{
		gateway: fmt.Sprintf("127.0.0.1:%d", freePort(t)),
		admin:   fmt.Sprintf("127.0.0.1:%d", admin),
		a:       startEcho(t, "sim-a", p),
		b:       startEcho(t, "sim-b", p),
	}
	r.toxic = startToxic(t, r.a)
	runGateway(t, r.gateway, fmt.Sprintf(rigConfig, admin, r.gateway, r.toxic.address(), r.b.address(), options))
	return r
}

// startEcho runs a simulator that answers with the question. Every event names
// the simulator as its model, so that bytes of two can be told apart.
func startEcho(t *testing.T, name string, p pace) simulator {
	t.Helper()
	return runSimulator(t, name,
		"--model", "echo", "--served-model-name", name, "chat", "--mode", "echo", "--force-dummy-tokenizer", "--seed", "1",
		"--max-num-seqs", "256", "--max-waiting-queue-length", "256", "--max-model-len", "8192", "--zmq-endpoint", "",
		"--latency-calculator", "constant", "--time-to-first-token", p.first, "--time-to-first-token-std-dev", p.spread,
		"--inter-token-latency", p.between,
	)
}

// settled waits until the gateway holds no reservation any more: a leaked one
// would make a server look busy for good.
func (r rig) settled(t *testing.T) {
	t.Helper()
	eventually(t, "every reservation to end", func() error {
		page, err := get(t, "http://"+r.admin+"/llmlb/pools")
		if err != nil {
			return err
		}
		var pools []struct {
			Endpoints []struct {
				Name          string `json:"name"`
				Calls         int    `json:"calls"`
				PrefillTokens int    `json:"prefill_tokens"`
				OutputTokens  int    `json:"output_tokens"`
			} `json:"endpoints"`
		}
		if err := json.Unmarshal([]byte(page), &pools); err != nil {
			return err
		}
		if len(pools) != 1 || len(pools[0].Endpoints) != 2 {
			return fmt.Errorf("the admin API tells of other pools than this one: %s", page)
		}
		var left error
		for _, e := range pools[0].Endpoints {
			if e.Calls != 0 || e.PrefillTokens != 0 || e.OutputTokens != 0 {
				left = errors.Join(left, fmt.Errorf("endpoint %s has %d calls, %d prefill and %d output tokens open", e.Name, e.Calls, e.PrefillTokens, e.OutputTokens))
			}
		}
		return left
	})
}
