package selection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// readStrategy reads the name of one of our strategies, or another of Caddy's
// policies as lb_policy has it, with its arguments and its block.
func (p *Policy) readStrategy(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Errf("option 'strategy' needs a value; have %s", strategiesInWords())
	}
	name := d.Val()
	if slices.Contains(Strategies(), name) {
		p.Strategy = name
		return nil
	}
	if err := checkDelegated(name); err != nil {
		return d.WrapErr(err)
	}
	policy, err := caddyfile.UnmarshalModule(d, policyNamespace+"."+name)
	if err != nil {
		return fmt.Errorf("reading strategy %q: %w", name, err) // which tells the line
	}
	p.SelectionPolicyRaw = caddyconfig.JSONModuleObject(policy, "policy", name, nil)
	return nil
}

// readScorer reads a scorer's name and weight, and leaves what follows to its
// module: the Caddyfile of one that implements caddyfile.Unmarshaler is its own.
func (p *Policy) readScorer(d *caddyfile.Dispenser) error {
	if !d.NextArg() {
		return d.Errf("option 'scorer' needs a name; have %s", strings.Join(ScorerNames(), ", "))
	}
	name := d.Val()
	if _, err := strconv.ParseFloat(name, 64); err == nil {
		return d.Errf("scorer '%s': the name comes first, then its weight", name)
	}
	if err := checkScorerName(name); err != nil {
		return d.WrapErr(err)
	}
	if slices.ContainsFunc(p.Scorers, func(s Scorer) bool { return s.name() == name }) {
		return d.Errf("scorer '%s' is given twice; add up their weights", name)
	}
	if len(p.Scorers) == llmlb.MaxScorers {
		return d.Errf("scorer '%s' is one too many; have up to %d", name, llmlb.MaxScorers)
	}
	info, err := caddy.GetModule(scorerNamespace + "." + name)
	if err != nil {
		return d.WrapErr(err)
	}
	var s Scorer
	mod := info.New()
	own, hasOptions := mod.(caddyfile.Unmarshaler)
	tokens := d.NextSegment()
	rest := caddyfile.NewDispenser(tokens)
	rest.Next() // the name
	if rest.NextArg() {
		weight, err := strconv.ParseFloat(rest.Val(), 64)
		switch {
		case err == nil && weight > 0 && weight <= maxScorerWeight:
			s.Weight = weight
			tokens = slices.Delete(tokens, 1, 2)
		case err == nil || !hasOptions:
			return rest.Errf("bad weight '%s' of scorer '%s'; have a number over 0 and up to %v", rest.Val(), name, float64(maxScorerWeight))
		}
	}
	if hasOptions {
		if err := own.UnmarshalCaddyfile(caddyfile.NewDispenser(tokens)); err != nil {
			return fmt.Errorf("reading scorer %q: %w", name, err)
		}
	} else if len(tokens) > 1 {
		rest = caddyfile.NewDispenser(tokens[1:])
		rest.Next()
		return rest.Errf("unexpected '%s' after scorer '%s', which has no options", rest.Val(), name)
	}
	s.ScorerRaw = caddyconfig.JSONModuleObject(mod, "name", name, nil)
	p.Scorers = append(p.Scorers, s)
	return nil
}

func (p *Policy) readORCA(d *caddyfile.Dispenser) error {
	var word string
	if err := readChoice(d, &word, []string{"on", "off"}); err != nil {
		return err
	}
	p.ORCA = word == "on"
	return nil
}
