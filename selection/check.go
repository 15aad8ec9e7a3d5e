package selection

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Bounds beyond which a value can only be a mistake.
const (
	minInterval   = 10 * time.Millisecond
	maxInterval   = time.Hour
	maxStaleAfter = 24 * time.Hour
	maxSpillTTFT  = time.Hour
	maxWaiting    = 1e6
	maxTokens     = 100_000_000
	maxConcurrent = 1_000_000
	maxIndexBytes = 64 << 30
	maxMaxBody    = 4 << 30
	maxName       = 64

	minWeight, maxWeight = 0.01, 100 // of an endpoint
	maxScorerWeight      = 1e6
)

// engines are the values of the option; the health package reads them.
var engines = []string{"auto", "none", "llamacpp", "lmdeploy", "nim", "ollama", "sglang", "tgi", "triton", "trtllm", "vllm"}

// check refuses what no configuration can mean, whether it came from a
// Caddyfile or as JSON. A zero is a value not given.
func (p *Policy) check() error {
	if p.Pool != "" {
		if err := checkName("pool", p.Pool); err != nil {
			return err
		}
	}
	if p.Engine != "" && !slices.Contains(engines, p.Engine) {
		return fmt.Errorf("engine %q is not known; have %s", p.Engine, strings.Join(engines, ", "))
	}
	if err := p.checkStrategy(); err != nil {
		return err
	}
	if err := p.checkScorers(); err != nil {
		return err
	}
	if p.Metrics != "" {
		if err := checkAddress("metrics", p.Metrics); err != nil {
			return err
		}
	}
	if p.Engine == "none" && p.Metrics != "" {
		return fmt.Errorf("metrics %q and engine none contradict each other: nothing is read", p.Metrics)
	}
	if err := p.checkSpills(); err != nil {
		return err
	}
	if err := p.checkTimes(); err != nil {
		return err
	}
	if err := p.checkNumbers(); err != nil {
		return err
	}
	if err := p.Circuit.check(); err != nil {
		return err
	}
	if err := p.checkChecks(); err != nil {
		return err
	}
	return p.checkEndpoints()
}

// checkSpills refuses thresholds that the strategy would not look at.
func (p *Policy) checkSpills() error {
	name := p.strategy()
	if name == StrategyWork || name == StrategyPrefixSpill {
		return nil
	}
	var option string
	switch {
	case p.SpillWaiting != nil:
		option = "spill_waiting"
	case p.SpillTTFT != nil:
		option = "spill_ttft"
	default:
		return nil
	}
	return fmt.Errorf("%s counts in strategies %s and %s alone, and the strategy is %q", option, StrategyWork, StrategyPrefixSpill, name)
}

func (p *Policy) checkTimes() error {
	if d := time.Duration(p.ScrapeInterval); d != 0 && (d < minInterval || d > maxInterval) {
		return fmt.Errorf("scrape_interval %v is out of range; have %v to %v", d, minInterval, maxInterval)
	}
	if d := time.Duration(p.StaleAfter); d != 0 && (d < minInterval || d > maxStaleAfter) {
		return fmt.Errorf("stale_after %v is out of range; have %v to %v", d, minInterval, maxStaleAfter)
	}
	interval := cmp.Or(time.Duration(p.ScrapeInterval), llmlb.DefaultInterval)
	stale := cmp.Or(time.Duration(p.StaleAfter), llmlb.DefaultStaleAfter)
	if interval >= stale {
		return fmt.Errorf("scrape_interval %v must be less than stale_after %v: numbers would be stale before new ones come", interval, stale)
	}
	if p.SpillTTFT != nil {
		if d := time.Duration(*p.SpillTTFT); d < 0 || d > maxSpillTTFT {
			return fmt.Errorf("spill_ttft %v is out of range; have 0 (off) to %v", d, maxSpillTTFT)
		}
	}
	return nil
}

func (p *Policy) checkNumbers() error {
	if a := p.Affinity; a < 0 || a > 1 || math.IsNaN(a) {
		return fmt.Errorf("affinity %v is out of range; have a share over 0 and up to 1", a)
	}
	if n := p.AffinityMinTokens; n < 0 || n > maxTokens {
		return fmt.Errorf("affinity_min_tokens %d is out of range; have 1 to %d", n, maxTokens)
	}
	if k := p.KVLimit; k < 0 || k > 1 || math.IsNaN(k) {
		return fmt.Errorf("kv_limit %v is out of range; have over 0%% and up to 100%%", k)
	}
	if n := p.SpillWaiting; n != nil && (*n < 0 || *n > maxWaiting || math.IsNaN(*n)) {
		return fmt.Errorf("spill_waiting %v is out of range; have 0 (off) to %d", *n, int(maxWaiting))
	}
	if n := p.IndexBytes; n != 0 && (n < minIndexBytes || n > maxIndexBytes) {
		return fmt.Errorf("index_bytes %d is out of range; have 64KiB to 64GiB", n)
	}
	if n := p.MaxBody; n < 0 || n > maxMaxBody {
		return fmt.Errorf("max_body %d is out of range; have 1 to %d", n, int64(maxMaxBody))
	}
	return nil
}

func (p *Policy) checkEndpoints() error {
	names := make(map[string]string, len(p.Endpoints))
	for _, e := range p.Endpoints {
		if e.Upstream == "" {
			return fmt.Errorf("endpoint has no upstream")
		}
		if n := e.MaxConcurrent; n < 0 || n > maxConcurrent {
			return fmt.Errorf("endpoint %q: max_concurrent %d is out of range; have 1 to %d", e.Upstream, n, maxConcurrent)
		}
		if n := e.MaxTokens; n < 0 || n > maxTokens {
			return fmt.Errorf("endpoint %q: max_tokens %d is out of range; have 1 to %d", e.Upstream, n, maxTokens)
		}
		if w := e.Weight; w != 0 && !(w >= minWeight && w <= maxWeight) {
			return fmt.Errorf("endpoint %q: weight %v is out of range; have %v to %v", e.Upstream, w, minWeight, maxWeight)
		}
		if e.Zone != "" {
			if err := checkName("zone", e.Zone); err != nil {
				return fmt.Errorf("endpoint %q: %w", e.Upstream, err)
			}
		}
		if e.Name == "" {
			continue
		}
		if err := checkName("name", e.Name); err != nil {
			return fmt.Errorf("endpoint %q: %w", e.Upstream, err)
		}
		if other, taken := names[e.Name]; taken {
			return fmt.Errorf("endpoint %q: name %q is that of endpoint %q already", e.Upstream, e.Name, other)
		}
		names[e.Name] = e.Upstream
	}
	return nil
}

// checkName refuses names that could not stand in a header, a label, a table
// or on a command line.
func checkName(option, name string) error {
	plain := func(c rune) bool {
		return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("._-:", c)
	}
	if name == "" || len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool { return !plain(c) }) {
		return fmt.Errorf("%s %q must be 1 to %d letters, digits, dots, colons, dashes or underscores", option, name, maxName)
	}
	return nil
}

// checkAddress refuses what has none of the three forms, and ports and URLs that
// nobody can connect to.
func checkAddress(option, s string) error {
	address := strings.ReplaceAll(s, "{host}", "host")
	switch {
	case strings.ContainsAny(address, " {}\r\n\t"):
	case strings.HasPrefix(address, "/"):
		return nil
	case strings.HasPrefix(address, ":") && strings.Contains(address, "/"):
		port, _, _ := strings.Cut(address[1:], "/")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return fmt.Errorf("%s %q: %q is not a port", option, s, port)
		}
		return nil
	case strings.HasPrefix(address, "http://"), strings.HasPrefix(address, "https://"):
		switch u, err := url.Parse(address); {
		case err == nil && u.User != nil: // not even the error may repeat them
			return fmt.Errorf("%s: its URL must not hold credentials; use upstream_auth", option)
		case err == nil && u.Hostname() != "":
			return nil
		}
	}
	return fmt.Errorf("%s %q is no address; have /path, :port/path, or a URL with {host} for the upstream's host", option, s)
}

func (p *Policy) indexBytes() int64 { return cmp.Or(p.IndexBytes, DefaultIndexBytes) }

func (p *Policy) maxBody() int64 { return cmp.Or(p.MaxBody, DefaultMaxBody) }
