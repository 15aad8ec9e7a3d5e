package selection

import (
	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// TokenBudget rates a server by how much of its budget of tokens in flight is
// left:
//
//	1 − (prompt tokens still to be computed there + our expected output) / budget
//
// The budget is the endpoint's max_tokens; where none is set, the KV-cache
// memory that the engine tells, in tokens; else 128 Ki tokens, times the
// endpoint's weight. Prompts of other gateways count as far as the server's
// numbers show them; where those are missing, as many as at the others on
// average.
type TokenBudget struct{}

// tokenBudget is the budget of a server of which nothing is known.
const tokenBudget = 128 << 10

// CaddyModule returns the Caddy module information.
func (*TokenBudget) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".token_budget", New: func() caddy.Module { return new(TokenBudget) }}
}

// Score implements llmlb.Scorer.
func (*TokenBudget) Score(_ *llmlb.Call, v *llmlb.View) float64 {
	budget := tokenBudget * v.Member.Share()
	switch {
	case v.Member != nil && v.Member.MaxTokens > 0:
		budget = float64(v.Member.MaxTokens)
	case v.KVCapacity > 0:
		budget = v.KVCapacity
	}
	return 1 - (max(0, v.PrefillTokens)+float64(v.OutputTokens))/budget
}

var _ llmlb.Scorer = (*TokenBudget)(nil)
