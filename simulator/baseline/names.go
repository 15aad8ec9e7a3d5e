package baseline

import (
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// Oracle before a strategy's name stands for the same rule with perfect signals.
const Oracle = "oracle:"

// entry is one strategy.
type entry struct {
	name   string
	info   string
	scrape time.Duration
	rule   func() virtual.Strategy
}

// entries go from those that know nothing to those that estimate most.
var entries = []entry{
	{"random", "any server", 0, rule[random]},
	{"round_robin", "one server after the other", 0, rule[roundRobin]},
	{"least_requests", "fewest open requests", 0, rule[leastRequests]},
	{"p2c", "fewer open requests of two servers drawn at random", 0, rule[twoChoices]},
	{"least_tokens", "fewest prompt tokens waiting for prefill", 0, rule[leastTokens]},
	{"chwbl", "KubeAI: consistent hashing of conversations, load bounded at 1.25 of the mean", 0, rule[chwbl]},
	{"sglang", "SGLang cache_aware: best match above a threshold, least loaded else or out of balance", 0, newSGLang},
	{"llmd", "llm-d: prefix 3, queue 2, KV usage 2; scrapes every 50 ms", 50 * time.Millisecond, rule[llmd]},
	{"aibrix", "AIBrix prefix-cache: best match not above mean + 1 sigma of open requests", 0, rule[aibrix]},
	{"dynamo", "NVIDIA Dynamo: fewest blocks to prefill plus active blocks", 0, rule[dynamo]},
	{"lmetric", "LMetric: (pending + new prefill tokens) x (batch + 1)", 0, rule[lmetric]},
	{"lpwl", "LPWL: pending + new prefill tokens", 0, rule[lpwl]},
	{"min_ttft", "Mooncake's Conductor: earliest estimated first token", 0, rule[minTTFT]},
}

// rule makes a strategy that starts from nothing.
func rule[T any, P interface {
	*T
	virtual.Strategy
}]() virtual.Strategy {
	return P(new(T))
}

// Names lists the strategies, always in the same order, without those of Oracle.
func Names() []string {
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.name
	}
	return names
}

// IsOracle says whether the name is one of perfect signals. Whoever runs it has to
// set virtual.Config.Oracle.
func IsOracle(name string) bool { return strings.HasPrefix(name, Oracle) }

// New returns what makes the named strategy for each gateway, and whether there is
// one of that name. With Oracle before the name it is the same one.
func New(name string) (func() virtual.Strategy, bool) {
	e, ok := find(name)
	return e.rule, ok
}

// Scrape is the time between two scrapes in the form that the named strategy was
// published in, if it is to be used with that: 0 is as the run has it.
func Scrape(name string) time.Duration {
	e, _ := find(name)
	return e.scrape
}

// Info says in a line what the named strategy does, or nothing where there is no
// such strategy.
func Info(name string) string {
	e, _ := find(name)
	if e.info != "" && IsOracle(name) {
		return e.info + " (perfect signals)"
	}
	return e.info
}

func find(name string) (entry, bool) {
	name = strings.TrimPrefix(name, Oracle)
	for _, e := range entries {
		if e.name == name {
			return e, true
		}
	}
	return entry{}, false
}
