package simulator

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// optionNames lists what may stand in the block, for error messages.
var optionNames = []string{"engine", "model", "name", "speed", "max_seqs", "kv_tokens", "max_batched_tokens", "reply_tokens", "fault"}

// stateKey counts the directives of one Caddyfile.
const stateKey = "llm_simulator.count"

func parseCaddyfile(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	s := new(Handler)
	if err := s.UnmarshalCaddyfile(h.Dispenser); err != nil {
		return nil, err
	}
	n, _ := h.State[stateKey].(int)
	n++
	h.State[stateKey] = n
	if s.Name == "" {
		// Two servers without a name and otherwise alike would be one server
		// with two doors, which nobody who writes two of them means.
		s.Name = fmt.Sprintf("%s-%d", defaultName, n)
	}
	return s, nil
}

// UnmarshalCaddyfile sets up the handler from Caddyfile tokens. Each option is
// optional and may be given once, but fault as often as one likes.
//
//	llm_simulator [<matcher>] {
//		engine             8b-h100|8b-a100|70b-h100x4|70b-h100x8|32b-h100x2
//		model              <name>
//		name               <id>
//		speed              <factor>
//		max_seqs           <n>
//		kv_tokens          <n>
//		max_batched_tokens <n>
//		reply_tokens       <n>
//		fault              <fault> [<arguments…>] {
//			rate <share>; every <n>; first <n>; match <text>; everything
//		}
//	}
func (h *Handler) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the directive's name
	if d.NextArg() {
		return d.ArgErr()
	}
	seen := make(map[string]bool)
	for d.NextBlock(0) {
		option := d.Val()
		if seen[option] && option != "fault" {
			return d.Errf("option '%s' is given twice", option)
		}
		seen[option] = true
		var err error
		switch option {
		case "engine":
			err = text(d, &h.Engine)
		case "model":
			err = text(d, &h.Model)
		case "name":
			err = text(d, &h.Name)
		case "speed":
			err = factor(d, &h.Speed)
		case "max_seqs":
			err = count(d, &h.MaxSeqs)
		case "kv_tokens":
			err = count(d, &h.KVTokens)
		case "max_batched_tokens":
			err = count(d, &h.MaxBatchedTokens)
		case "reply_tokens":
			err = count(d, &h.ReplyTokens)
		case "fault":
			var f Fault
			f, err = unmarshalFault(d)
			h.Faults = append(h.Faults, f)
		default:
			return d.Errf("unknown option '%s'; have %s", option, strings.Join(optionNames, ", "))
		}
		if err != nil {
			return err
		}
	}
	// Mistakes in values show at adapt time, with the file and line.
	if _, err := h.resolve(); err != nil {
		return d.WrapErr(err)
	}
	if _, err := newRules(h.Faults, time.Time{}); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// text reads an option's single argument.
func text(d *caddyfile.Dispenser, to *string) error {
	if !d.AllArgs(to) {
		return d.ArgErr()
	}
	if *to == "" {
		return d.Err("value is empty")
	}
	return nil
}

func count(d *caddyfile.Dispenser, to *int) error {
	option := d.Val()
	var value string
	if err := text(d, &value); err != nil {
		return err
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 {
		return d.Errf("parsing %s '%s': want a whole number of at least 1", option, value)
	}
	*to = n
	return nil
}

func factor(d *caddyfile.Dispenser, to *float64) error {
	option := d.Val()
	var value string
	if err := text(d, &value); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f > 0 && f <= maxSpeed) {
		return d.Errf("parsing %s '%s': want a number above 0 and up to %d", option, value, maxSpeed)
	}
	*to = f
	return nil
}

// Interface guards
var _ caddyfile.Unmarshaler = (*Handler)(nil)
