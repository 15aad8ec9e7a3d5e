package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Errors rates a server by the share of its latest attempts that failed:
//
//	(1 − failed share)³
//
// which is steep: with one attempt in five failing, half of the opinion is
// gone. What failed is forgotten by half every 30 s, so that the server gets
// its chance again. A server that nothing was sent to gets 1: it is not known to
// fail.
type Errors struct{}

// CaddyModule returns the Caddy module information.
func (*Errors) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".errors", New: func() caddy.Module { return new(Errors) }}
}

// Score implements llmlb.Scorer.
func (*Errors) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	ok := 1 - v.ErrorRate
	return ok * ok * ok
}

var _ llmlb.Scorer = (*Errors)(nil)
