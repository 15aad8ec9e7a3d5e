package selection

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// scorerNamespace is that of the modules that rate endpoints for "weighted".
const scorerNamespace = "llmlb.scorers"

func init() {
	caddy.RegisterModule(new(Queue))
	caddy.RegisterModule(new(KVMemory))
	caddy.RegisterModule(new(Prefix))
	caddy.RegisterModule(new(TokenBudget))
	caddy.RegisterModule(new(Errors))
	caddy.RegisterModule(new(Latency))
	caddy.RegisterModule(new(Session))
}

// middling is what a scorer says where it knows nothing: never the best, or an
// endpoint would be drawn work by its silence.
const middling = 0.5

// DefaultScorers returns the scorers of "weighted" when none is named.
func DefaultScorers() []llmlb.WeightedScorer {
	return []llmlb.WeightedScorer{
		{Name: "queue", Weight: 0.35, Scorer: new(Queue)},
		{Name: "prefix", Weight: 0.35, Scorer: new(Prefix)},
		{Name: "token_budget", Weight: 0.20, Scorer: new(TokenBudget)},
		{Name: "errors", Weight: 0.10, Scorer: new(Errors)},
	}
}

// Scorer is one opinion of the strategy "weighted" and what it weighs.
type Scorer struct {
	// Weight of the opinion beside the others', over 0. Default: 1.
	Weight float64 `json:"weight,omitempty"`

	// ScorerRaw is the module that rates the servers.
	ScorerRaw json.RawMessage `json:"scorer,omitempty" caddy:"namespace=llmlb.scorers inline_key=name"`
}

// name returns the name of the scorer's module, empty when it has none.
func (s *Scorer) name() string {
	var named struct {
		Name string `json:"name"`
	}
	_ = json.Unmarshal(s.ScorerRaw, &named) // what cannot be read has no name
	return named.Name
}

// ScorerNames lists the scorers that this build has.
func ScorerNames() []string { return namesIn(scorerNamespace) }

// namesIn lists the modules of a namespace.
func namesIn(namespace string) []string {
	modules := caddy.GetModules(namespace)
	names := make([]string, 0, len(modules))
	for _, m := range modules {
		names = append(names, m.ID.Name())
	}
	return names
}

// checkScorers refuses what no choice can use.
func (p *Policy) checkScorers() error {
	if len(p.Scorers) > llmlb.MaxScorers {
		return fmt.Errorf("%d scorers are too many; have up to %d", len(p.Scorers), llmlb.MaxScorers)
	}
	seen := make(map[string]bool, len(p.Scorers))
	for i := range p.Scorers {
		s := &p.Scorers[i]
		name := s.name()
		if err := checkScorerName(name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("scorer %q is given twice; add up their weights", name)
		}
		seen[name] = true
		if s.Weight != 0 {
			if w := s.Weight; !(w > 0 && w <= maxScorerWeight) {
				return fmt.Errorf("scorer %q: weight %v is out of range; have over 0 and up to %v", name, w, maxScorerWeight)
			}
		}
		if strategy := p.strategy(); strategy != StrategyWeighted {
			return fmt.Errorf("scorer %q counts in strategy %q alone, and the strategy is %q", name, StrategyWeighted, strategy)
		}
	}
	return nil
}

func checkScorerName(name string) error {
	if have := ScorerNames(); !slices.Contains(have, name) {
		return fmt.Errorf("scorer %q is not known; have %s", name, strings.Join(have, ", "))
	}
	return nil
}

// loadScorers loads the scorers' modules.
func (p *Policy) loadScorers(ctx caddy.Context) ([]llmlb.WeightedScorer, error) {
	if p.strategy() != StrategyWeighted {
		return nil, nil
	}
	if len(p.Scorers) == 0 {
		return DefaultScorers(), nil
	}
	list := make([]llmlb.WeightedScorer, 0, len(p.Scorers))
	for i := range p.Scorers {
		s := &p.Scorers[i]
		name, weight := s.name(), s.Weight
		if weight == 0 {
			weight = 1
		}
		mod, err := ctx.LoadModule(s, "ScorerRaw")
		if err != nil {
			return nil, fmt.Errorf("loading scorer %q: %w", name, err)
		}
		scorer, ok := mod.(llmlb.Scorer)
		if !ok {
			return nil, fmt.Errorf("the module %s.%s, a %T, is no scorer", scorerNamespace, name, mod)
		}
		list = append(list, llmlb.WeightedScorer{Name: name, Weight: weight, Scorer: scorer})
	}
	return list, nil
}
