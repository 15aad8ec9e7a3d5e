package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
)

var metricName = regexp.MustCompile(`caddy_llmlb_[a-z_]*[a-z]`)

// familiesIn returns the families that a file names, and fails the test for each that there
// is not.
func familiesIn(t *testing.T, file string, there map[string]*dto.MetricFamily) (found map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	found = make(map[string]bool)
	for n, line := range strings.Split(string(text), "\n") {
		for _, name := range metricName.FindAllString(line, -1) {
			family := name
			for _, part := range []string{"_bucket", "_count", "_sum"} {
				if whole := strings.TrimSuffix(name, part); there[whole] != nil && there[whole].GetType() == dto.MetricType_HISTOGRAM {
					family = whole
				}
			}
			if there[family] == nil {
				t.Errorf("%s:%d names %s, which the gateway does not have", file, n+1, name)
			}
			found[family] = true
		}
	}
	return found
}

// The documentation lists every metric that the gateway has, and neither it nor the
// dashboard, the alerts and their tests name one that it has not.
func TestMetricsAreThoseThatAreWrittenOf(t *testing.T) {
	a := newBackend(t)
	g := start(t, fmt.Sprintf("llm_proxy %s {\n%s%sslo ttft 2s tpot 100ms\ntenant {header.X-Tenant}\n}\n", a.addr(), fast, patient))
	a.answers(func(w http.ResponseWriter, r *http.Request, body []byte) {
		if !strings.Contains(string(body), `"stream":true`) {
			answer(w, r, body)
			return
		}
		w.Header().Set("Content-Type", eventStream)
		for range 8 {
			send(w, answerEvents[1])
			time.Sleep(2 * time.Millisecond)
		}
		send(w, answerEvents[4])
		send(w, answerEvents[5])
	})
	a.seen()
	for i := range 8 {
		if r := g.post(chat(i%2 == 0, "", prose(fmt.Sprint(i), 2000))); r.status != http.StatusOK {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
	}
	g.post(`{"model":"m","model":"m"}`) // refused
	g.idle(t)
	var there map[string]*dto.MetricFamily
	eventually(t, "what streams have taught to be shown", func() bool {
		there = g.families()
		return there["caddy_llmlb_itl_seconds"] != nil && there["caddy_llmlb_prefill_tokens_per_second"] != nil
	})
	maps.DeleteFunc(there, func(name string, _ *dto.MetricFamily) bool { return !strings.HasPrefix(name, "caddy_llmlb_") })

	documented := familiesIn(t, "../docs/monitoring.md", there)
	for _, name := range slices.Sorted(maps.Keys(there)) {
		if !documented[name] {
			t.Errorf("docs/monitoring.md does not tell of %s", name)
		}
		if there[name].GetHelp() == "" {
			t.Errorf("%s has no help text", name)
		}
	}
	for _, file := range []string{"dashboard.json", "alerts.yml", "alerts_test.yml"} {
		if found := familiesIn(t, "../examples/monitoring/"+file, there); len(found) < 5 {
			t.Errorf("%s names only %d metrics", file, len(found))
		}
	}
}

// The dashboard can be imported: its panels lie beside each other, ask the data
// source that is chosen, and have names of their own.
func TestTheDashboardIsWhole(t *testing.T) {
	text, err := os.ReadFile("../examples/monitoring/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	type source struct{ Type, UID string }
	var board struct {
		Title, UID string
		Panels     []struct {
			ID          int
			Title, Type string
			Datasource  source
			GridPos     struct{ X, Y, W, H int }
			Targets     []struct {
				RefID        string `json:"refId"`
				Expr         string
				LegendFormat string
				Datasource   source
			}
		}
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	if board.Title == "" || board.UID == "" || len(board.Panels) < 20 {
		t.Errorf("title %q, uid %q, %d panels", board.Title, board.UID, len(board.Panels))
	}
	variables := make(map[string]bool)
	for _, v := range board.Templating.List {
		variables[v.Name] = true
	}
	ids, titles, taken := make(map[int]bool), make(map[string]bool), make(map[[2]int]string)
	row := ""
	for _, p := range board.Panels {
		if p.Type == "row" {
			row = p.Title
		}
		if p.Title == "" || ids[p.ID] || titles[row+"/"+p.Title] {
			t.Errorf("panel %d %q: no title, or one that another has", p.ID, p.Title)
		}
		ids[p.ID], titles[row+"/"+p.Title] = true, true
		pos := p.GridPos
		if pos.X < 0 || pos.X+pos.W > 24 || pos.W < 1 || pos.H < 1 {
			t.Errorf("panel %q lies beyond the edge: %+v", p.Title, pos)
		}
		for x := pos.X; x < pos.X+pos.W; x++ {
			for y := pos.Y; y < pos.Y+pos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("panel %q lies over %q", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		refs := make(map[string]bool)
		for _, target := range p.Targets {
			if refs[target.RefID] || target.Expr == "" || target.LegendFormat == "" || target.Datasource != (source{"prometheus", "${datasource}"}) {
				t.Errorf("panel %q has a query that is not whole: %+v", p.Title, target)
			}
			refs[target.RefID] = true
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !variables[v[1]] && !strings.HasPrefix(v[1], "__") {
					t.Errorf("panel %q uses $%s, which the dashboard does not have", p.Title, v[1])
				}
			}
		}
	}
}
