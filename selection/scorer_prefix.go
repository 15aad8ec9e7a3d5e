package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Prefix rates a server by the share of the prompt that its KV cache is believed
// to hold:
//
//	matched tokens / prompt tokens
//
// A request without a prompt gets 0 everywhere.
type Prefix struct{}

// CaddyModule returns the Caddy module information.
func (*Prefix) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".prefix", New: func() caddy.Module { return new(Prefix) }}
}

// Score implements llmlb.Scorer.
func (*Prefix) Score(c *llmlb.Call, v *llmlb.View) float64 {
	if c.InputTokens <= 0 {
		return 0
	}
	return float64(v.Matched) / float64(c.InputTokens)
}

var _ llmlb.Scorer = (*Prefix)(nil)
