package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Limits of single options. They leave room for whatever a pool might be, and keep
// out what is a slip of the hand and would run for days.
const (
	maxServers   = 4096
	maxSeeds     = 1000
	maxKV        = 1 << 26
	maxBlock     = 1024
	maxRequests  = 4_000_000 // as many as a trace that is read may have
	maxLength    = 100_000_000
	minSpeed     = 1e-3
	maxSpeed     = 1e3
	minAttention = 0.01
	maxAttention = 100

	shortest  = time.Microsecond
	minScrape = time.Millisecond
	maxDelay  = time.Hour // of what is added to each scrape or request
	maxDither = 24 * time.Hour
	longest   = 10_000 * time.Hour
)

// Limits of what options and workload come to together.
const (
	// maxPairs bounds servers times gateways: each gateway keeps an account of each
	// server.
	maxPairs = 1 << 16

	// maxBlocks bounds the blocks of KV memory of all servers, which take up to some
	// 50 bytes each in a run.
	maxBlocks = 1 << 27

	// maxScrapes bounds the scrapes of a run. They are most of the work of one in
	// which little else happens: a thousand million take some ten minutes.
	maxScrapes = 1e9

	// maxUnread bounds the scrapes that are under way at a time.
	maxUnread = 1 << 20

	// maxLasting bounds how long a run lasts in virtual time, which ends after 292
	// years.
	maxLasting = 10 * 365 * 24 * time.Hour

	// maxKept bounds the bytes of the workloads of all seeds.
	maxKept = 2 << 30
)

// checkRanges looks at each number by itself.
func (o *options) checkRanges() error {
	for _, x := range []struct {
		name               string
		value, least, most float64
	}{
		{"speed", o.speed, minSpeed, maxSpeed},
		{"attention", o.attention, minAttention, maxAttention},
		{"replicas", float64(o.replicas), 1, maxServers},
		{"gateways", float64(o.gateways), 1, maxServers},
		{"seeds", float64(o.seeds), 1, maxSeeds},
		{"kv", float64(o.kv), 1, maxKV},
		{"block", float64(o.block), 1, maxBlock},
	} {
		if o.set[x.name] && !(x.value >= x.least && x.value <= x.most) {
			return fmt.Errorf("-%s %s is not within %s to %s", x.name, plain(x.value), plain(x.least), plain(x.most))
		}
	}
	for _, x := range []struct {
		name               string
		value, least, most time.Duration
	}{
		{"first", o.first, shortest, longest},
		{"scrape", o.scrape, minScrape, longest},
		{"slo-ttft", o.slo.TTFT, shortest, longest},
		{"slo-tpot", o.slo.TPOT, shortest, longest},
		{"dither", o.dither, 0, maxDither},
		{"lag", o.lag, 0, maxDelay},
		{"overhead", o.overhead, 0, maxDelay},
		{"max-wait", o.maxWait, 0, longest},
	} {
		if o.set[x.name] && (x.value < x.least || x.value > x.most) {
			return fmt.Errorf("-%s %v is not within %s to %s", x.name, x.value, inHours(x.least), inHours(x.most))
		}
	}
	return nil
}

// mostOf is the most that an option takes which is a whole number.
func mostOf(name string) int {
	switch name {
	case "replicas", "gateways":
		return maxServers
	case "seeds":
		return maxSeeds
	case "kv":
		return maxKV
	case "block":
		return maxBlock
	case "requests":
		return maxRequests
	}
	return maxLength
}

// plain is a number without an exponent that nobody would type.
func plain(x float64) string {
	if math.Trunc(x) == x && math.Abs(x) < 1e15 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%g", x)
}

// inHours is a time as one would type it: 1h and not 1h0m0s.
func inHours(d time.Duration) string { return strings.TrimSuffix(d.String(), "0m0s") }

// checkPool looks at what the servers are together.
func (o *options) checkPool() error {
	if pairs := len(o.engines) * o.gateways; pairs > maxPairs {
		return fmt.Errorf("%d servers times -gateways %d is %d; the limit is %d", len(o.engines), o.gateways, pairs, maxPairs)
	}
	if blocks := blocks(o.engines); blocks > maxBlocks {
		return fmt.Errorf("%d servers have %d blocks of KV memory, more than the %d that are simulated: fewer servers, a smaller -kv or a larger -block", len(o.engines), blocks, maxBlocks)
	}
	for _, s := range o.strategies {
		every := o.scrapeOf(s)
		if n := o.lag.Seconds() / every.Seconds() * float64(len(o.engines)*o.gateways); n > maxUnread {
			return fmt.Errorf("-lag %v with -scrape %v has %.0f scrapes under way at a time; the limit is %d", o.lag, every, n, maxUnread)
		}
	}
	return nil
}

func blocks(engines []engine.Config) (n int) {
	for i := range engines {
		n += engines[i].KVTokens / engines[i].BlockSize
	}
	return n
}

// bearable says why a run of the strategy at that speed would take for ever, if it
// would.
func (o *options) bearable(s strategy, t *trace.Trace, speed float64) error {
	lasts := t.Requests[len(t.Requests)-1].At.Seconds() / speed
	if lasts > maxLasting.Seconds() {
		return fmt.Errorf("at -speed %g the workload lasts %.0f days; the limit is %.0f: take a part of it with -first, or a higher -speed",
			speed, lasts/86400, maxLasting.Hours()/24)
	}
	every := o.scrapeOf(s)
	if n := lasts / every.Seconds() * float64(len(o.engines)*o.gateways); n > maxScrapes {
		return fmt.Errorf("%s with -scrape %v and -speed %g takes %.2g scrapes; the limit is %g: take a longer -scrape, a higher -speed, or a part of the workload with -first",
			s.name, every, speed, n, float64(maxScrapes))
	}
	return nil
}

// fits says that no server can answer any request, if that is so. What no server can
// hold is refused, as engines do.
func (o *options) fits(t *trace.Trace) error {
	most := 0
	for i := range o.engines {
		c := &o.engines[i]
		most = max(most, c.KVTokens/c.BlockSize*c.BlockSize)
	}
	prompts := true
	for i := range t.Requests {
		q := &t.Requests[i]
		if q.Input+q.Output-1 <= most { // the last token is sampled, and needs no memory
			return nil
		}
		prompts = prompts && q.Input > most
	}
	what := "every prompt with its answer"
	if prompts {
		what = "every prompt"
	}
	return fmt.Errorf("%s is longer than a server's memory, %d tokens: take a larger -kv or shorter prompts", what, most)
}

// kept is how many bytes a workload takes, about.
func kept(t *trace.Trace) float64 {
	n := 0
	for i := range t.Requests {
		q := &t.Requests[i]
		n += requestBytes + 8*len(q.Blocks)
		if q.Follows > 0 { // its ids begin with those of the turn before, in one place
			n -= 8 * len(t.Requests[i-q.Follows].Blocks)
		}
	}
	return float64(n)
}

// requestBytes is what a request takes without its ids.
const requestBytes = 80
