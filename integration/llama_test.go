package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
)

// llamaConfig names the servers, so that a test knows who served.
const llamaConfig = `{
	admin %[1]s
	auto_https off
	persist_config off
	default_bind 127.0.0.1
}

http://%[2]s {
	llm_proxy {
		to %[3]s %[4]s
		pool            llamas
		scrape_interval 200ms
		stale_after     2s
		endpoint %[3]s {
			name llama-1
		}
		endpoint %[4]s {
			name llama-2
		}
	}
}
`

// llamaRow is what GET /llmlb/pools says of one server; a number that nobody
// knows is nil.
type llamaRow struct {
	Name    string   `json:"name"`
	Engine  string   `json:"engine"`
	State   string   `json:"state"`
	Blind   bool     `json:"blind"`
	Running *float64 `json:"running"`
	Waiting *float64 `json:"waiting"`
	Speed   *float64 `json:"tokens_per_second"`
}

// llamaRows asks the gateway's admin API for the pool, by the servers' names.
func llamaRows(t *testing.T, admin string) (map[string]llamaRow, error) {
	t.Helper()
	page, err := get(t, "http://"+admin+"/llmlb/pools")
	if err != nil {
		return nil, err
	}
	var pools []struct {
		Endpoints []llamaRow `json:"endpoints"`
	}
	if err := json.Unmarshal([]byte(page), &pools); err != nil {
		return nil, err
	}
	rows := map[string]llamaRow{}
	for _, pool := range pools {
		for _, row := range pool.Endpoints {
			rows[row.Name] = row
		}
	}
	return rows, nil
}

// The gateway in front of two real engines.
func TestRealLlamaServers(t *testing.T) {
	binary, model := needLlama(t)
	servers := map[string]llama{}
	for _, name := range []string{"llama-1", "llama-2"} {
		servers[name] = startLlama(t, name, binary, model)
	}
	admin := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	gateway := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	runGateway(t, gateway, fmt.Sprintf(llamaConfig, admin, gateway,
		servers["llama-1"].address(), servers["llama-2"].address()))

	t.Run("every stream comes to its end", func(t *testing.T) { manyStreams(t, gateway, servers) })
	t.Run("a prefix finds its cache", func(t *testing.T) { prefixesReturn(t, gateway, servers["llama-1"]) })
	t.Run("their load is known", func(t *testing.T) { loadIsKnown(t, admin, servers["llama-1"]) })
}

// This engine closes its connection right after a streamed answer and does not
// say so before. A proxy that sends the next request on it must not let the
// client pay for that, nor have anything generated twice.
func manyStreams(t *testing.T, gateway string, servers map[string]llama) {
	const requests, atOnce = 400, 4
	var (
		todo    = make(chan int, requests)
		mu      sync.Mutex
		served  = map[string]int{}
		answers int64 // tokens of all answers
		wg      sync.WaitGroup
	)
	for i := range requests {
		todo <- i
	}
	close(todo)
	var before int64
	for _, l := range servers {
		before += l.generated(t)
	}
	for range atOnce {
		wg.Go(func() {
			for i := range todo {
				got, err := converse(t.Context(), gateway, chat{
					model: "llama", system: "be brief", user: speech(uint64(i), 5+i%40), most: int64(2 + i%9),
				})
				if err != nil {
					t.Errorf("request %d: %v", i, err)
					continue
				}
				if got.text == "" {
					t.Errorf("request %d brought no text", i)
				}
				mu.Lock()
				served[got.endpoint]++
				answers += got.generated
				mu.Unlock()
			}
		})
	}
	wg.Wait()

	t.Logf("served by %v", served)
	for name := range servers {
		if served[name] == 0 {
			t.Errorf("%s served none of %d requests: %v", name, requests, served)
		}
	}
	if t.Failed() {
		return // what failed may well have generated something
	}
	// The count is made when a slot is freed, which may be after the last byte.
	eventually(t, "the servers to have generated what was answered, and no more", func() error {
		after := -before
		for _, l := range servers {
			after += l.generated(t)
		}
		if after != answers {
			return fmt.Errorf("they generated %d tokens, the answers have %d", after, answers)
		}
		return nil
	})
}

// What is asked about the same long text is asked where that text is cached, and
// the engine says that it was. An engine's slot holds one prefix, so one question
// is asked at a time.
func prefixesReturn(t *testing.T, gateway string, counter llama) {
	const longWords = 1600
	for conversation := range uint64(3) {
		long := speech(1_000_000+conversation, longWords)
		tokens := counter.tokens(t, long)
		if tokens < longWords {
			t.Fatalf("the prefix has %d tokens, want %d at least", tokens, longWords)
		}
		say := func(question string) reply {
			got, err := converse(t.Context(), gateway, chat{model: "llama", system: long, user: question, most: 8})
			if err != nil {
				t.Fatalf("conversation %d, %q: %v", conversation, question, err)
			}
			t.Logf("conversation %d: %s, %s, %d of %d prompt tokens cached",
				conversation, got.endpoint, got.decision, got.cached, got.prompt)
			return got
		}
		first := say("What is asked first?")
		if first.decision != "cold" || first.cached > int64(tokens)/10 {
			t.Errorf("the first of conversation %d was %q with %d of %d prefix tokens cached, want cold with next to none",
				conversation, first.decision, first.cached, tokens)
		}
		for _, question := range []string{"And what comes second?", "Is there a third?"} {
			got := say(question)
			if got.endpoint != first.endpoint || got.decision != "warm" {
				t.Errorf("%q of conversation %d went to %s as %q, want %s as warm",
					question, conversation, got.endpoint, got.decision, first.endpoint)
			}
			if got.cached < int64(tokens)*8/10 {
				t.Errorf("%q of conversation %d had %d of %d prefix tokens cached, want 80 %%",
					question, conversation, got.cached, tokens)
			}
		}
	}
}

// Whoever looks at the pool sees the engines' own numbers, also of what the
// gateway did not send.
func loadIsKnown(t *testing.T, admin string, busy llama) {
	eventually(t, "both servers to be known as idle", func() error {
		rows, err := llamaRows(t, admin)
		if err != nil {
			return err
		}
		for _, name := range []string{"llama-1", "llama-2"} {
			row := rows[name]
			if row.Engine != "llamacpp" || row.State != "up" || row.Blind {
				return fmt.Errorf("%s is a %q, %s, blind %t", name, row.Engine, row.State, row.Blind)
			}
			if row.Running == nil || row.Waiting == nil || row.Speed == nil {
				return fmt.Errorf("of %s there are no numbers: %+v", name, row)
			}
			if *row.Running != 0 {
				return fmt.Errorf("%s still shows %v running", name, *row.Running)
			}
		}
		return nil
	})

	ctx, cancel := context.WithCancel(t.Context())
	var elsewhere sync.WaitGroup
	elsewhere.Go(func() {
		for ctx.Err() == nil { // its end is not awaited, so an error is no news
			_, _ = converse(ctx, busy.address(), chat{"llama", "be long", "Tell all.", tinyContext / 2})
		}
	})
	defer elsewhere.Wait()
	defer cancel()
	eventually(t, "a request that came past the gateway to show", func() error {
		rows, err := llamaRows(t, admin)
		if err != nil {
			return err
		}
		if running := rows[busy.name].Running; running == nil || *running < 1 {
			return fmt.Errorf("%s has nothing running", busy.name)
		}
		return nil
	})
}
