package selection

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// world is a pool under a clock that only the test moves.
type world struct {
	t        testing.TB
	pool     *llmlb.Pool
	settings *llmlb.Settings
	now      time.Time
}

// newWorld returns a pool of the given upstreams with the default settings,
// about whose load nothing is known yet.
func newWorld(t testing.TB, addresses ...string) *world {
	t.Helper()
	s := &llmlb.Settings{
		Pool: "test", Strategy: StrategyWork, Affinity: llmlb.DefaultAffinity,
		MinTokens: llmlb.DefaultMinTokens, KVLimit: llmlb.DefaultKVLimit, Retries: 5,
		Scrape: llmlb.Scrape{Interval: llmlb.DefaultInterval, StaleAfter: llmlb.DefaultStaleAfter},
	}
	for _, a := range addresses {
		s.Members = append(s.Members, llmlb.Member{Address: a})
	}
	w := &world{t: t, pool: llmlb.NewPool("test"), settings: s, now: time.Unix(1_800_000_000, 0)}
	if err := w.pool.Bind(s); err != nil {
		t.Fatal(err)
	}
	w.pool.Start(s, w.now)
	indexOf(w.pool).resize(1 << 20)
	return w
}

// addresses returns n dial addresses.
func addresses(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("10.4.%d.%d:8000", i/250, i%250+1)
	}
	return list
}

func (w *world) endpoint(address string) *llmlb.Endpoint {
	return w.settings.Member(address).Endpoint
}

// scrape is what the endpoint tells of its load: running, waiting and the share
// of KV memory in use.
func (w *world) scrape(address string, running, waiting, kv float64) {
	s := llmlb.NoSignals(w.now)
	s.Running, s.Waiting, s.KVUsage = running, waiting, kv
	w.endpoint(address).ObserveSignals(s)
}

// scrapeAll has every endpoint tell the same load.
func (w *world) scrapeAll(running, waiting, kv float64) {
	for _, m := range w.settings.Members {
		w.scrape(m.Address, running, waiting, kv)
	}
}

// part is a piece of a prompt: its text is told by a few words, its length in
// tokens.
type part struct {
	text   string
	tokens int
}

// prompt is what the request reader makes of the parts. Prompts with equal
// beginnings have equal first blocks.
func prompt(parts ...part) llmlb.Features {
	f := llmlb.Features{API: "chat", MaxOutputTokens: 512}
	at, chain := 0, uint64(1)
	for i, p := range parts {
		start := at
		at += p.tokens * 4
		for end := llmlb.BlockEnd(len(f.Blocks) + 1); end <= at; end = llmlb.BlockEnd(len(f.Blocks) + 1) {
			chain = mix(chain ^ hashText(p.text) ^ uint64(end-start))
			f.Blocks = append(f.Blocks, chain)
		}
		chain = mix(chain ^ hashText(p.text))
		if i == 0 || i == 1 && strings.HasPrefix(parts[0].text, "system") {
			f.Key = chain // all up to the first user message
		}
	}
	f.PromptBytes, f.InputTokens = at, max(1, at/4)
	return f
}

func hashText(s string) uint64 { return mix(xxhash.Sum64String(s)) }

func (w *world) call(f llmlb.Features) *llmlb.Call {
	c := llmlb.NewCall(w.pool, w.settings, w.now)
	c.Features = f
	return c
}

// grant sends a Call and returns it with its Lease.
func (w *world) grant(f llmlb.Features) *llmlb.Call {
	w.t.Helper()
	c := w.call(f)
	if v := Grant(c, w.now); v != Granted {
		w.t.Fatalf("verdict %v, want Granted", v)
	}
	return c
}

// serve sends a Call and has it answered whole at once, by a server as fast as
// one is assumed to be. It returns where.
func (w *world) serve(f llmlb.Features) (address string, d llmlb.Decision) {
	w.t.Helper()
	c := w.grant(f)
	address = where(c)
	w.now = w.now.Add(50*time.Millisecond + time.Duration(c.Lease.Uncached())*time.Second/llmlb.PriorSpeed)
	c.SawFirstToken(w.now)
	c.EndAttempt(w.now, llmlb.Served)
	return address, c.Decision
}

func where(c *llmlb.Call) string { return c.Lease.Endpoint().Address() }

// within fails unless every address got a number of calls in the range.
func (w *world) within(got map[string]int, low, high int) {
	w.t.Helper()
	for _, m := range w.settings.Members {
		if n := got[m.Address]; n < low || n > high {
			w.t.Errorf("%s got %d calls, want %d to %d; all: %v", m.Address, n, low, high, got)
		}
	}
}
