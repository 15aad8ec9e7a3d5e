package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Latency rates a server by its time to first token:
//
//	1 / (1 + ttft / 500 ms)
//
// A first token after 500 ms makes 0.5, after 2 s 0.2. The time is the latest
// one known within a minute, which is that of other prompts than this one; where
// there is none, the one predicted for this request.
type Latency struct{}

// latencyHalf is the time to first token, in seconds, that makes a half.
const latencyHalf = 0.5

// CaddyModule returns the Caddy module information.
func (*Latency) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".latency", New: func() caddy.Module { return new(Latency) }}
}

// Score implements llmlb.Scorer.
func (*Latency) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	ttft := v.RecentTTFT
	if ttft < 0 {
		ttft = max(0, v.Predicted)
	}
	return 1 / (1 + ttft/latencyHalf)
}

var _ llmlb.Scorer = (*Latency)(nil)
