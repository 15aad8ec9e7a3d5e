package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// monitoring is the example that is tried here, as it is shipped.
const monitoring = "../examples/monitoring"

// needPrometheus returns the folder of a real prometheus, or skips the test.
func needPrometheus(t *testing.T) string {
	t.Helper()
	folder := os.Getenv("PROMETHEUS")
	if folder == "" {
		t.Skip("runs a real Prometheus; set PROMETHEUS to the folder of one, as '.ci/full prometheus' does")
	}
	return folder
}

// promtool runs promtool in the example's folder.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(needPrometheus(t), "promtool"), args...)
	cmd.Dir, cmd.Stdin = monitoring, strings.NewReader(stdin)
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, printed)
	}
}

// shipped reads a file of the example.
func shipped(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(monitoring, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// replaced puts other words in the place of each first one, all of which must be
// there.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("the example has no %q any more", pairs[i])
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	return text
}

// watchedRig is the example on ports that are free: its gateway, each of its servers
// in a process of its own, and a Prometheus that watches.
type watchedRig struct {
	gateway, admin, prometheus string // addresses
	servers                    []int  // process ids
}

func startWatched(t *testing.T) *watchedRig {
	t.Helper()
	caddy, err := builtGateway()
	if err != nil {
		t.Fatal(err)
	}
	folder := needPrometheus(t)
	address := func() string { return fmt.Sprintf("127.0.0.1:%d", freePort(t)) }
	r := &watchedRig{gateway: address(), admin: address(), prometheus: address()}
	port := func(address string) string { return address[strings.LastIndexByte(address, ':'):] }

	front, servers, found := strings.Cut(shipped(t, "Caddyfile"), "# What follows stands in for the real servers.")
	if !found {
		t.Fatal("the example's Caddyfile has no mark before its servers any more")
	}
	snippet, _, _ := strings.Cut(servers, "\n\n")
	for i, was := range []string{"127.0.0.1:8101", "127.0.0.1:8102", "127.0.0.1:8103"} {
		is, name := address(), fmt.Sprintf("sim-%d", i+1)
		front = replaced(t, front, was, is)
		config := filepath.Join(t.TempDir(), "Caddyfile")
		text := fmt.Sprintf("{\nadmin off\npersist_config off\ndefault_bind 127.0.0.1\n}\n%s\nhttp://%s {\nimport simulated_server %s\n}\n", snippet, port(is), name)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		home := t.TempDir()
		r.servers = append(r.servers, spawn(t, name, []string{"HOME=" + home, "XDG_DATA_HOME=" + home, "XDG_CONFIG_HOME=" + home}, caddy, "run", "--config", config))
		eventually(t, name+" to serve", func() error {
			_, err := get(t, "http://"+is+"/v1/models")
			return err
		})
	}
	runGateway(t, r.gateway, replaced(t, front, "localhost:2019", r.admin, ":8080", port(r.gateway)))

	dir := t.TempDir()
	config := replaced(t, shipped(t, "prometheus.yml"), "localhost:2019", r.admin, "interval: 5s", "interval: 500ms")
	rules := regexp.MustCompile(`\bfor: \w+`).ReplaceAllString(shipped(t, "alerts.yml"), "for: 1s")
	for name, text := range map[string]string{"prometheus.yml": config, "alerts.yml": rules} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	spawn(t, "prometheus", nil, filepath.Join(folder, "prometheus"), "--config.file", filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", r.prometheus, "--log.level", "warn")
	eventually(t, "prometheus to be ready", func() error {
		_, err := get(t, "http://"+r.prometheus+"/-/ready")
		return err
	})
	return r
}

// load sends the example's traffic for that long, and some requests that are
// refused.
func (r *watchedRig) load(t *testing.T, duration string) {
	t.Helper()
	caddy, err := builtGateway()
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range []string{`{"model":"nobody's","messages":[]}`, `{"model":"sim","model":"sim"}`} {
		res, err := http.Post("http://"+r.gateway+"/v1/chat/completions", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
	}
	cmd := exec.Command(caddy, "llm-load", "http://"+r.gateway, "--model", "sim", "--rate", "8", "--duration", duration, "--prefixes", "4", "--prefix-tokens", "800",
		"--class", "interactive,share=0.7,input=100-300,output=12", "--class", "background,share=0.3,input=400,output=24,header=X-Class: background")
	if printed, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sending traffic: %v\n%s", err, printed)
	}
}

// ask asks Prometheus's API, and reads what it answers into data.
func (r *watchedRig) ask(t *testing.T, data any, path string, query ...string) error {
	t.Helper()
	values := make(url.Values)
	for i := 0; i < len(query); i += 2 {
		values.Set(query[i], query[i+1])
	}
	res, err := http.Get("http://" + r.prometheus + "/api/v1/" + path + "?" + values.Encode())
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil {
		return err
	}
	if answer.Status != "success" {
		return fmt.Errorf("prometheus says: %s", answer.Error)
	}
	return json.Unmarshal(answer.Data, data)
}

// sample returns how many series an expression has that are numbers.
func (r *watchedRig) sample(t *testing.T, expression string) (int, error) {
	t.Helper()
	var data struct {
		Result []struct{ Value [2]any }
	}
	if err := r.ask(t, &data, "query", "query", expression); err != nil {
		return 0, err
	}
	n := 0
	for _, s := range data.Result {
		if v, err := strconv.ParseFloat(fmt.Sprint(s.Value[1]), 64); err == nil && v == v {
			n++
		}
	}
	return n, nil
}

// firing returns the alerts that fire, with the server that each is about.
func (r *watchedRig) firing(t *testing.T) ([]string, error) {
	t.Helper()
	var data struct {
		Alerts []struct {
			State  string
			Labels map[string]string
		}
	}
	if err := r.ask(t, &data, "alerts"); err != nil {
		return nil, err
	}
	var list []string
	for _, a := range data.Alerts {
		if a.State == "firing" {
			list = append(list, strings.TrimSpace(a.Labels["alertname"]+" "+a.Labels["endpoint"]))
		}
	}
	return list, nil
}

// query is what a panel of the dashboard asks for.
type query struct{ panel, expression string }

// dashboard returns the queries of the example's dashboard, as Grafana would send
// them.
func dashboard(t *testing.T) (list []query) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Type    string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(shipped(t, "dashboard.json")), &board); err != nil {
		t.Fatalf("reading the dashboard: %v", err)
	}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q asks for nothing", p.Title)
		}
		for _, target := range p.Targets {
			list = append(list, query{p.Title, strings.NewReplacer("$pool", ".*", "$__rate_interval", "30s").Replace(target.Expr)})
		}
	}
	return list
}

// The monitoring example works as it is shipped: a real Prometheus takes its
// configuration and its rules, each panel of the dashboard asks for something that
// is there when there is traffic, and when a server dies the alert about it fires, and
// no other that would wake somebody.
func TestRealPrometheus(t *testing.T) {
	needPrometheus(t)
	promtool(t, "", "check", "config", "prometheus.yml")
	promtool(t, "", "check", "rules", "alerts.yml")
	promtool(t, "", "test", "rules", "alerts_test.yml")

	r := startWatched(t)
	r.load(t, "15s")
	page, err := get(t, "http://"+r.admin+"/metrics")
	if err != nil {
		t.Fatal(err)
	}
	var ours bytes.Buffer
	for line := range strings.Lines(page) {
		if strings.Contains(line, "caddy_llmlb_") {
			ours.WriteString(line)
		}
	}
	promtool(t, ours.String(), "check", "metrics")

	for _, q := range dashboard(t) {
		t.Run(q.panel, func(t *testing.T) {
			eventually(t, "data for "+q.expression, func() error {
				n, err := r.sample(t, q.expression)
				if err == nil && n == 0 {
					err = fmt.Errorf("no series")
				}
				return err
			})
		})
	}
	r.rulesWork(t)
	list, err := r.firing(t)
	// A machine with much to do may be slow, which is what these are about.
	list = slices.DeleteFunc(list, func(alert string) bool {
		return slices.Contains([]string{"LLMGoodputBurns", "LLMGoodputBurnsFast", "LLMFirstTokenLate", "LLMQueueWaitHigh"}, alert)
	})
	if err != nil || len(list) > 0 {
		t.Errorf("alerts fire while all is well: %v, %v", list, err)
	}

	if err := syscall.Kill(r.servers[2], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the alert that a server is down", func() error {
		list, err := r.firing(t)
		if err == nil && !slices.Contains(list, "LLMEndpointDown sim-3") {
			err = fmt.Errorf("firing: %v", list)
		}
		return err
	})
	for range 3 {
		list, err := r.firing(t)
		if err != nil {
			t.Fatal(err)
		}
		for _, alert := range list {
			if strings.HasPrefix(alert, "LLMPool") || strings.HasPrefix(alert, "LLMGateway") || strings.HasSuffix(alert, "sim-1") || strings.HasSuffix(alert, "sim-2") {
				t.Errorf("%s fires, and only sim-3 is down", alert)
			}
		}
		time.Sleep(time.Second)
	}
	for _, pid := range r.servers[:2] {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the alert that nobody is left", func() error {
		list, err := r.firing(t)
		if err == nil && !slices.Contains(list, "LLMPoolDown") {
			err = fmt.Errorf("firing: %v", list)
		}
		return err
	})
	r.rulesWork(t)
}

// rulesWork fails the test unless Prometheus has evaluated every rule, without an
// error.
func (r *watchedRig) rulesWork(t *testing.T) {
	t.Helper()
	eventually(t, "all rules to be evaluated", func() error {
		var data struct {
			Groups []struct {
				Rules []struct{ Name, Health, LastError string }
			}
		}
		if err := r.ask(t, &data, "rules"); err != nil {
			return err
		}
		n := 0
		for _, g := range data.Groups {
			for _, rule := range g.Rules {
				if n++; rule.Health != "ok" {
					return fmt.Errorf("rule %s is %s: %s", rule.Name, rule.Health, rule.LastError)
				}
			}
		}
		if want := strings.Count(shipped(t, "alerts.yml"), "expr:"); n != want {
			return fmt.Errorf("%d rules, want %d", n, want)
		}
		return nil
	})
}
