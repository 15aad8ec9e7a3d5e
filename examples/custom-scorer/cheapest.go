// Package customscorer adds a scorer to the load balancer for LLM inference
// servers: cheapest, which prefers the servers that cost less. It is an example
// of a scorer by somebody else; importing it registers the module.
package customscorer

import (
	"fmt"
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() {
	caddy.RegisterModule(new(Cheapest))
}

// Cheapest rates a server by what it costs:
//
//	lowest price / its price
//
// The cheapest gets 1, one of twice the price 0.5. A server without a price gets
// the mean of those that have one: unknown is neither cheap nor dear.
type Cheapest struct {
	// Prices by the name of the endpoint, in any one unit, such as dollars an
	// hour. All above 0.
	Prices map[string]float64 `json:"prices,omitempty"`

	scores map[string]float64
	mean   float64
}

// CaddyModule returns the Caddy module information. The last part of the ID is
// what the Caddyfile calls the scorer.
func (*Cheapest) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{
		ID:  "llmlb.scorers.cheapest",
		New: func() caddy.Module { return new(Cheapest) },
	}
}

// Provision works out the scores once, so that a choice only looks them up.
func (c *Cheapest) Provision(caddy.Context) error {
	if len(c.Prices) == 0 {
		return fmt.Errorf("cheapest needs the price of at least one endpoint")
	}
	lowest := math.Inf(1)
	for name, price := range c.Prices {
		if !(price > 0) || math.IsInf(price, 1) {
			return fmt.Errorf("price %v of endpoint %q must be a number above 0", price, name)
		}
		lowest = min(lowest, price)
	}
	c.scores = make(map[string]float64, len(c.Prices))
	for name, price := range c.Prices {
		c.scores[name] = lowest / price
		c.mean += c.scores[name] / float64(len(c.Prices))
	}
	return nil
}

// Score is called for every usable endpoint of every choice, while no other
// choice can be made: it must not wait, allocate, or keep the View.
func (c *Cheapest) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	if score, known := c.scores[v.Endpoint.Name()]; known {
		return score
	}
	return c.mean
}

// UnmarshalCaddyfile reads what follows the weight:
//
//	scorer cheapest [<weight>] {
//		<endpoint> <price>
//	}
func (c *Cheapest) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the scorer's name
	if d.NextArg() {
		return d.Errf("unexpected argument '%s'; prices stand in the block", d.Val())
	}
	c.Prices = make(map[string]float64)
	for d.NextBlock(0) {
		name := d.Val()
		if _, twice := c.Prices[name]; twice {
			return d.Errf("endpoint '%s' has two prices", name)
		}
		var text string
		if !d.AllArgs(&text) {
			return d.ArgErr()
		}
		price, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return d.Errf("parsing the price '%s' of endpoint '%s': have a number such as 1.20", text, name)
		}
		c.Prices[name] = price
	}
	return nil
}

// Interface guards
var (
	_ llmlb.Scorer          = (*Cheapest)(nil)
	_ caddy.Provisioner     = (*Cheapest)(nil)
	_ caddyfile.Unmarshaler = (*Cheapest)(nil)
)
