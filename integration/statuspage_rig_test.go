package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// pageRig is a gateway with a status page before nine simulated servers, one in
// each state at least. The simulated servers are part of the same Caddy.
type pageRig struct {
	t       *testing.T
	address string // of the gateway
	admin   string
	ports   []int
	config  string // the Caddyfile's path
	quit    context.CancelFunc
	traffic sync.WaitGroup
}

// pageServers are the servers by name, in the order of the configuration. None
// listens for gpu-5.
var pageServers = []string{"gpu-1", "gpu-2", "gpu-3", "gpu-4", "gpu-5", "gpu-6", "gpu-7", "gpu-8", "gpu-9"}

// pageCaddyfile has a page with actions. gpu-9 is of another zone: while there are
// servers in this one it is sent nothing but canaries.
func (r *pageRig) caddyfile(comment string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n{\n\tadmin %s\n\tauto_https off\n\tpersist_config off\n\tdefault_bind 127.0.0.1\n\tservers {\n\t\tprotocols h1\n\t}\n}\n", comment, r.admin)
	fmt.Fprintf(&b, "http://%s {\n\thandle_path /status* {\n\t\tllm_status {\n\t\t\tallow_actions unguarded\n\t\t}\n\t}\n\tllm_proxy", r.address)
	for _, p := range r.ports {
		fmt.Fprintf(&b, " 127.0.0.1:%d", p)
	}
	b.WriteString(" {\n\t\tlocal_zone a\n\t\twarm_up 5m\n\t\treadiness /health {\n\t\t\tinterval 1s\n\t\t}\n\t\tcanary 1s {\n\t\t\ttimeout 5s\n\t\t}\n")
	for i, p := range r.ports {
		fmt.Fprintf(&b, "\t\tendpoint 127.0.0.1:%d {\n\t\t\tname %s\n\t\t\tzone %s\n", p, pageServers[i], map[bool]string{true: "b", false: "a"}[i == 8])
		if i == 6 {
			b.WriteString("\t\t\tdrain\n")
		}
		b.WriteString("\t\t}\n")
	}
	b.WriteString("\t}\n}\n")
	for i, p := range r.ports {
		if i == 4 {
			continue
		}
		fmt.Fprintf(&b, "http://:%d {\n\tllm_simulator {\n\t\tname %s\n\t\tspeed 0.3\n\t\tkv_tokens 16000\n\t\tmax_seqs 16\n\t}\n}\n", p, pageServers[i])
	}
	return b.String()
}

// startPage runs all of it until the test ends.
func startPage(t *testing.T) *pageRig {
	t.Helper()
	r := &pageRig{t: t, address: fmt.Sprintf("127.0.0.1:%d", freePort(t)), admin: fmt.Sprintf("127.0.0.1:%d", freePort(t))}
	for range pageServers {
		r.ports = append(r.ports, freePort(t))
	}
	r.ports[4] = 9 // where nobody listens: a free port may be another's in a minute
	r.config = filepath.Join(t.TempDir(), "Caddyfile")
	runGateway(t, r.address, r.caddyfile("first"))
	ctx, cancel := context.WithCancel(context.Background())
	r.quit = cancel
	t.Cleanup(func() {
		cancel()
		r.traffic.Wait()
	})
	r.clients(ctx, 6)
	return r
}

// page is the address of the page.
func (r *pageRig) page() string { return "http://" + r.address + "/status/" }

// clients keep asking, each one question after the other, with beginnings that they
// share.
func (r *pageRig) clients(ctx context.Context, n int) {
	for c := range n {
		r.traffic.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				beginning := strings.Repeat(fmt.Sprintf("the rules of team %d ", (c+i/7)%9), 150+200*(i%4))
				res, err := r.ask(ctx, fmt.Sprintf("%s question %d of %d", beginning, i, c), 40+30*(i%5))
				if err == nil {
					_, _ = io.Copy(io.Discard, res.Body)
					_ = res.Body.Close()
				}
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(300+200*((c+i)%8)) * time.Millisecond):
				}
			}
		})
	}
}

// ask sends one question and returns the stream of its answer.
func (r *pageRig) ask(ctx context.Context, question string, tokens int) (*http.Response, error) {
	body, _ := json.Marshal(map[string]any{
		"model": "sim", "stream": true, "max_tokens": tokens, "messages": []map[string]string{{"role": "user", "content": question}},
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+r.address+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(req)
}

// fault has a simulated server fail from now on.
func (r *pageRig) fault(name, fault string) {
	r.t.Helper()
	r.send(http.MethodPut, "/simulator/faults/"+name, fmt.Sprintf("[%q]", fault))
}

// send sends something to the admin API.
func (r *pageRig) send(method, path, body string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode/100 != 2 {
		r.t.Fatalf("%s %s answered %d %s", method, path, res.StatusCode, answer)
	}
}

// reload loads the configuration anew, as `caddy reload` does.
func (r *pageRig) reload() {
	r.t.Helper()
	binary, err := builtGateway()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.config, []byte(r.caddyfile(time.Now().String())), 0o600); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.t.Context(), limit)
	defer cancel()
	// A changed comment is no change to Caddy, so it is told to load in any case.
	if printed, err := exec.CommandContext(ctx, binary, "reload", "--force", "--config", r.config, "--address", r.admin).CombinedOutput(); err != nil {
		r.t.Fatalf("reloading: %v\n%s", err, printed)
	}
}

// states are the endpoints' states by name, as the page's own JSON has them.
func (r *pageRig) states() (map[string]string, error) {
	text, err := get(r.t, r.page()+"pools")
	if err != nil {
		return nil, err
	}
	var pools []struct {
		Endpoints []struct{ Name, State string }
	}
	if err := json.Unmarshal([]byte(text), &pools); err != nil {
		return nil, err
	}
	states := make(map[string]string)
	for _, p := range pools {
		for _, e := range p.Endpoints {
			states[e.Name] = e.State
		}
	}
	return states, nil
}

// troubled brings servers into all the states there are: gpu-4 says that it has too
// much to do, gpu-5 is not there, gpu-6 is drained while a long answer runs, gpu-7
// by the configuration, gpu-8 loads its model, and gpu-9 becomes slow.
func (r *pageRig) troubled() {
	r.t.Helper()
	r.long("gpu-6")
	r.send(http.MethodPost, "/llmlb/pools/default/endpoints/gpu-6/drain", "")
	r.fault("gpu-4", "status 503 retry_after 3600")
	r.fault("gpu-8", "loading")
	r.await(map[string]string{"gpu-9": "up"})
	r.tried("gpu-9", 7) // canaries have to learn how fast it is when idle
	r.fault("gpu-9", "slow_first_token 2s")
	r.refused("gpu-4")
	r.await(map[string]string{
		"gpu-1": "up", "gpu-2": "up", "gpu-3": "up", "gpu-4": "overloaded", "gpu-5": "down",
		"gpu-6": "draining", "gpu-7": "drained", "gpu-8": "starting", "gpu-9": "degraded",
	})
}

// long opens an answer on the server that goes on for minutes, by asking until one
// falls there.
func (r *pageRig) long(server string) {
	r.t.Helper()
	for i := range 100 {
		res, err := r.ask(r.t.Context(), strings.Repeat(fmt.Sprintf("long story %d ", i), 40), 8000)
		if err != nil {
			r.t.Fatal(err)
		}
		if res.Header.Get("X-LLM-Endpoint") == server {
			r.t.Cleanup(func() { _ = res.Body.Close() })
			return
		}
		_ = res.Body.Close()
	}
	r.t.Fatalf("none of 100 requests went to %s", server)
}

// refused asks new questions until the server has refused one and is seen as
// overloaded.
func (r *pageRig) refused(server string) {
	r.t.Helper()
	n := 0
	eventually(r.t, server+" to refuse a request", func() error {
		n++
		res, err := r.ask(r.t.Context(), strings.Repeat(fmt.Sprintf("another matter %d ", n), 40), 8)
		if err != nil {
			return err
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		states, err := r.states()
		if err == nil && states[server] != "overloaded" {
			err = fmt.Errorf("it is %q", states[server])
		}
		return err
	})
}

// tried waits until the simulated server has had so many requests.
func (r *pageRig) tried(server string, requests int) {
	r.t.Helper()
	eventually(r.t, server+" to have been tried", func() error {
		text, err := get(r.t, "http://"+r.admin+"/simulator/faults/"+server)
		if err != nil {
			return err
		}
		var servers []struct{ Requests int }
		if err := json.Unmarshal([]byte(text), &servers); err != nil {
			return err
		}
		if len(servers) != 1 || servers[0].Requests < requests {
			return fmt.Errorf("it has had less than %d: %s", requests, text)
		}
		return nil
	})
}

// await waits for servers to be in these states.
func (r *pageRig) await(want map[string]string) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("the states %v", want), func() error {
		got, err := r.states()
		if err != nil {
			return err
		}
		for name, state := range want {
			if got[name] != state {
				return fmt.Errorf("%s is %q, want %q; all: %v", name, got[name], state, got)
			}
		}
		return nil
	})
}
