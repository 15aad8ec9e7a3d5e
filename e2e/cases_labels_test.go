package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// series counts what the metrics show of the gateway.
func series(families map[string]*dto.MetricFamily) (n int) {
	for name, family := range families {
		if !strings.HasPrefix(name, "caddy_llmlb_") {
			continue
		}
		for _, m := range family.GetMetric() {
			if h := m.GetHistogram(); h != nil {
				n += len(h.GetBucket()) + 2
			} else {
				n++
			}
		}
	}
	return n
}

// counter returns the sum of the family's numbers whose labels have these values:
// pairs of a name and a value.
func (g *gateway) counter(name string, labels ...string) (sum float64) {
	g.t.Helper()
	return counterOf(g.families(), name, labels...)
}

func counterOf(families map[string]*dto.MetricFamily, name string, labels ...string) (sum float64) {
	for _, m := range families[name].GetMetric() {
		has := make(map[string]string)
		for _, l := range m.GetLabel() {
			has[l.GetName()] = l.GetValue()
		}
		meant := true
		for i := 0; i+1 < len(labels); i += 2 {
			meant = meant && has[labels[i]] == labels[i+1]
		}
		if !meant {
			continue
		}
		switch {
		case m.GetCounter() != nil:
			sum += m.GetCounter().GetValue()
		case m.GetGauge() != nil:
			sum += m.GetGauge().GetValue()
		case m.GetHistogram() != nil:
			sum += float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// Clients make up a new model, tenant, host and path for each of many thousands of
// requests. The metrics do not grow by them, nor does the memory: what the
// configuration does not name counts together, as "other".
func TestWhatClientsMakeUpIsNoLabel(t *testing.T) {
	const requests, clients = 9000, 8
	a := forgetful(t, func(w http.ResponseWriter, r *http.Request, _ int64) { answer(w, r, nil) })
	addr := freeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	// The site takes every host.
	g := startBeside(t, fmt.Sprintf(`http://:%s {
	llm_proxy %s {
		%sindex_bytes 1MiB
		tenant {header.X-Tenant}
		tenant_limit weight 2 named
		class rich {
			header X-Class rich
		}
	}
}
`, port, a.addr(), strings.ReplaceAll(fast, "\n", "\n\t\t")), "respond ok\n")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	send := func(model, tenant, host, path string) error {
		body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"hi"}]}`, model)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+addr+path, strings.NewReader(body))
		if err != nil {
			return err
		}
		req.Host = host
		req.Header.Set("X-Tenant", tenant)
		req.Header.Set("X-Class", tenant)
		req.Header.Set("Content-Type", "application/json")
		res, err := client.Do(req)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if served := strings.HasPrefix(path, chatPath); err == nil && (res.StatusCode == http.StatusOK) != served {
			return fmt.Errorf("status %d for %s: %s", res.StatusCode, path, text)
		}
		return err
	}
	many := func(n int, kind string) {
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				for i := c; i < n; i += clients {
					name := fmt.Sprintf("%s-%d", kind, i)
					path := chatPath + "?" + name
					if i%3 == 0 {
						path = "/" + name // which is not served
					}
					if err := send("model-"+name, "tenant-"+name, "host-"+name+".example", path); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
	}
	if err := send("m", "named", "localhost", chatPath); err != nil {
		t.Fatal(err)
	}
	many(300, "before") // what is made once has been made
	families := g.families()
	before, other, memory := series(families), counterOf(families, "caddy_llmlb_tenant_requests_total", "tenant", "other"), live()

	many(requests, "flood")

	families = g.families()
	if grown := series(families) - before; grown >= 100 {
		t.Errorf("%d more series, of %d before", grown, before)
	}
	if got := counterOf(families, "caddy_llmlb_tenant_requests_total", "tenant", "other") - other; got < requests*2/3 || got > requests {
		t.Errorf("%v requests count for other tenants, want those of %d that named one", got, requests)
	}
	if got := counterOf(families, "caddy_llmlb_tenant_requests_total", "tenant", "named"); got != 1 {
		t.Errorf("%v requests count for the tenant that the configuration names, want 1", got)
	}
	if grown := live() - memory; grown > 20<<20 {
		t.Errorf("%d MiB more of memory", grown>>20)
	} else {
		t.Logf("%d KiB more of memory, %d series", grown>>10, series(families))
	}
	text := read(t, g.fromAdmin("/metrics")).body
	for _, made := range []string{"flood-", "before-"} {
		if i := strings.Index(text, made); i >= 0 {
			t.Errorf("what a client made up is shown: …%s…", text[max(0, i-100):min(len(text), i+100)])
		}
	}
}
