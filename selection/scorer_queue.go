package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Queue rates a server by the requests that stand there: those that wait, and,
// for a small part, those that run, since an engine whose batch is full begins
// to queue and one whose batch is large is slow.
//
//	1 / (1 + (waiting + running/8) / (4 × weight))
//
// An empty server gets 1, four waiting requests or 32 running ones 0.5, twelve
// waiting 0.25. The scale is
// fixed: one request more makes the same difference whatever the others have.
// Where the numbers of a server are missing or too old, its own share is known
// and the rest is what the others have on average.
type Queue struct{}

const (
	queueHalf    = 4.0
	queueRunning = 1.0 / 8
)

// CaddyModule returns the Caddy module information.
func (*Queue) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".queue", New: func() caddy.Module { return new(Queue) }}
}

// Score implements llmlb.Scorer.
func (*Queue) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	requests := max(0, v.Waiting) + queueRunning*max(0, v.Running)
	return 1 / (1 + requests/(queueHalf*v.Member.Share()))
}

var _ llmlb.Scorer = (*Queue)(nil)
