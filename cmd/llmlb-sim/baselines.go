package main

import (
	"github.com/caddy-llmlb/caddy-llmlb/simulator/baseline"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// The names of the ideal pool: with one store of prefixes as large as all caches
// together, and with one without limit.
const (
	idealName         = "ideal"
	idealInfiniteName = "ideal_infinite"
)

// baselineOf is a baseline, which sees what its gateways know, or what is true.
func baselineOf(name string, oracle bool) (strategy, bool) {
	rule, ok := baseline.New(name)
	s := strategy{name: name, oracle: oracle, scrape: baseline.Scrape(name)}
	if oracle {
		s.name = baseline.Oracle + name
	}
	s.set = func(c *virtual.Config) { c.Rule = rule }
	return s, ok
}

// ideal is the ideal pool: placed by perfect signals, and whatever one server has
// computed is at hand for all.
func ideal(name string, infinite bool) strategy {
	return strategy{name: name, oracle: true, set: func(c *virtual.Config) {
		c.Engines = baseline.IdealPool(c.Engines, infinite)
		c.Rule = baseline.Ideal
	}}
}
