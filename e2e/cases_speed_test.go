package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/caddy-llmlb/caddy-llmlb/simulator"
)

// Of two servers one computes prompts three times as fast as the other, which
// nothing tells the gateway. Two hundred requests later it knows, and has given
// the fast one its due.
func TestAFasterServerIsFoundOut(t *testing.T) {
	slow, fast3 := freeAddr(t), freeAddr(t)
	var sites strings.Builder
	for addr, speed := range map[string]int{slow: 1, fast3: 3} {
		fmt.Fprintf(&sites, "http://%s {\nllm_simulator {\nmodel m\nname %d\nspeed %d\n}\n}\n", addr, speed, speed)
	}
	g := startBeside(t, sites.String(), fmt.Sprintf("llm_proxy %s %s {\n%sendpoint %s {\nname slow\n}\nendpoint %s {\nname fast\n}\n}\n",
		slow, fast3, fast, slow, fast3))

	const clients, requests = 24, 200
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	work := map[string]float64{}
	var next atomic.Int32
	var all sync.WaitGroup
	began := time.Now()
	for range clients {
		all.Go(func() {
			for {
				i := int(next.Add(1))
				if i > requests {
					return
				}
				text := prose(fmt.Sprintf("document %d", i), 4000+rand.IntN(12_000))
				r, err := g.ask(client, strings.Replace(chat(true, "", text), "{", `{"max_tokens":4,`, 1))
				if err != nil || r.status != http.StatusOK {
					t.Errorf("status %d, %v: %s", r.status, err, r.body)
					return
				}
				mu.Lock()
				work[r.endpoint()] += float64(len(text))
				mu.Unlock()
			}
		})
	}
	all.Wait()
	rows := rowsOf(g)
	if rows["fast"].PrefillSpeed == nil || rows["slow"].PrefillSpeed == nil {
		t.Fatalf("speeds are not known after %d requests: %+v", requests, rows)
	}
	learned := *rows["fast"].PrefillSpeed / *rows["slow"].PrefillSpeed
	if learned < 2.1 || learned > 3.9 {
		t.Errorf("the fast server is taken for %.2f times as fast, want 3 ± 30 %%", learned)
	}
	share := work["fast"] / work["slow"]
	if share < 2.2 {
		t.Errorf("the fast server got %.2f times the work, want 2.2 at least", share)
	}
	t.Logf("speeds %.2f : 1 (%.0f and %.0f tokens/s), work %.2f : 1, in %v", learned, *rows["fast"].PrefillSpeed, *rows["slow"].PrefillSpeed, share, time.Since(began))
}
