package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// KVMemory rates a server by the share of its KV-cache memory that is free:
//
//	1 − usage
//
// The memory also holds prefixes that nobody is using any more, and engines
// count those in different ways, so a server that has served for a while may
// look fuller than it is. A server that does not tell gets 0.5.
type KVMemory struct{}

// CaddyModule returns the Caddy module information.
func (*KVMemory) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".kv_memory", New: func() caddy.Module { return new(KVMemory) }}
}

// Score implements llmlb.Scorer.
func (*KVMemory) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	if v.KVUsage < 0 {
		return middling
	}
	return 1 - v.KVUsage
}

var _ llmlb.Scorer = (*KVMemory)(nil)
