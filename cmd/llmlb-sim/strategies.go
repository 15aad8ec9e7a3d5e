package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/baseline"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// strategy is one that is simulated.
type strategy struct {
	name   string
	oracle bool
	scrape time.Duration // how often its own gateways read the servers; 0 is not known

	// set puts it into a run's configuration. It is called for each run: what a run
	// has is not shared.
	set func(*virtual.Config)
}

// all is what -strategy calls every one.
const all = "all"

// chosen are the strategies of -strategy, in their order and each once.
func (o *options) chosen() ([]strategy, error) {
	var list []strategy
	add := func(s strategy) {
		if !slices.ContainsFunc(list, func(x strategy) bool { return x.name == s.name }) {
			list = append(list, s)
		}
	}
	for name := range strings.SplitSeq(o.strategy, ",") {
		name = strings.TrimSpace(name)
		if name == all {
			for _, name := range everyName(o.oracle, o.gateways) {
				s, err := strategyOf(name)
				if err != nil {
					return nil, err
				}
				add(s)
			}
			continue
		}
		if o.oracle && slices.Contains(baseline.Names(), name) {
			name = baseline.Oracle + name
		}
		s, err := strategyOf(name)
		if err != nil {
			return nil, err
		}
		add(s)
	}
	if o.oracle && !slices.ContainsFunc(list, func(s strategy) bool { return strings.HasPrefix(s.name, baseline.Oracle) }) {
		return nil, fmt.Errorf("-oracle has nothing to show: -strategy %s names no baseline. Baselines are %s; this project's own are never shown more than a gateway knows",
			o.strategy, strings.Join(baseline.Names(), ", "))
	}
	return list, nil
}

// everyName is what "all" stands for. Whom the truth would tell nothing new is there
// once.
func everyName(oraclesOnly bool, gateways int) []string {
	names := slices.Clone(selection.Strategies())
	if !oraclesOnly {
		names = append(names, baseline.Names()...)
	}
	for _, name := range baseline.Names() {
		if oraclesOnly || !knowsAll(name, gateways) {
			names = append(names, baseline.Oracle+name)
		}
	}
	return append(names, idealName, idealInfiniteName)
}

// knowsAll reports whether a baseline sees the same with its oracle: it looks at
// nothing, or at its own count of open requests, which is true where there is one
// gateway.
func knowsAll(name string, gateways int) bool {
	switch name {
	case "random", "round_robin":
		return true
	case "p2c", "least_requests", "chwbl":
		return gateways == 1
	}
	return false
}

// strategyOf finds one by its name.
func strategyOf(name string) (strategy, error) {
	own := selection.Strategies()
	base, oracle := strings.CutPrefix(name, baseline.Oracle)
	switch {
	case slices.Contains(own, name):
		return strategy{name: name, set: func(c *virtual.Config) { c.Strategy, c.Adjust = name, defaults(name) }}, nil
	case oracle && slices.Contains(own, base):
		return strategy{}, fmt.Errorf("-strategy %q: %s is what serves traffic, and is never shown more than a gateway knows", name, base)
	case name == idealName, name == idealInfiniteName:
		return ideal(name, name == idealInfiniteName), nil
	}
	if s, ok := baselineOf(base, oracle); ok {
		return s, nil
	}
	names := slices.Concat(own, baseline.Names(), []string{idealName, idealInfiniteName})
	return strategy{}, fmt.Errorf("-strategy %q is unknown; have all, or of these as many as you like, separated by commas: %s; with %s before it a baseline sees what is true",
		name, strings.Join(names, ", "), baseline.Oracle)
}

// defaults are the settings that a configuration gives a strategy by default and
// that a gateway of the simulator does not have on its own.
func defaults(name string) func(*llmlb.Settings) {
	switch name {
	case selection.StrategyPrefixSpill:
		return func(s *llmlb.Settings) {
			s.SpillWaiting, s.SpillTTFT = llmlb.DefaultSpillWaiting, llmlb.DefaultSpillTTFT
		}
	case selection.StrategyWeighted:
		return func(s *llmlb.Settings) { s.Scorers = selection.DefaultScorers() }
	}
	return nil
}

// config is the configuration of a run of the strategy.
func (o *options) config(s strategy, seed uint64) virtual.Config {
	c := virtual.Config{
		Engines: slices.Clone(o.engines), Gateways: o.gateways, Scrape: o.scrapeOf(s), Lag: o.lag,
		Overhead: o.overhead, MaxWait: o.maxWait, Seed: seed, Oracle: s.oracle,
	}
	s.set(&c)
	return c
}

// scrapeOf is how often its gateways read the servers: as often as was asked for,
// else as often as those who publish it do.
func (o *options) scrapeOf(s strategy) time.Duration {
	if s.scrape > 0 && !o.set["scrape"] {
		return s.scrape
	}
	return o.scrape
}
