package selection

import (
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func init() {
	caddy.RegisterModule(new(someArguments))
	caddy.RegisterModule(new(moreArguments))
	caddy.RegisterModule(new(noScorer))
}

// withWords is a scorer by somebody else, with a grammar of its own.
type withWords struct {
	Words []string `json:"words,omitempty"`
}

func (*withWords) Score(*llmlb.Call, *llmlb.View) float64 { return 0.5 }

func (s *withWords) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // its name
	s.Words = d.RemainingArgs()
	for d.NextBlock(0) {
		s.Words = append(append(s.Words, d.Val()), d.RemainingArgs()...)
	}
	for _, w := range s.Words {
		if w == "wrong" {
			return d.Errf("'%s' is wrong", w)
		}
	}
	return nil
}

type someArguments struct{ withWords }

func (*someArguments) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".test_arguments", New: func() caddy.Module { return new(someArguments) }}
}

type moreArguments struct{ withWords }

func (*moreArguments) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".test_arguments_more", New: func() caddy.Module { return new(moreArguments) }}
}

// noScorer has the name of a scorer and rates nothing.
type noScorer struct{}

func (*noScorer) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: scorerNamespace + ".test_none", New: func() caddy.Module { return new(noScorer) }}
}
