package simulator

import (
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// unmarshalFault reads one fault, with its conditions in a block. Each of these
// may be given once.
//
//	fault <fault> [<arguments…>] {
//		rate  <share>
//		every <n>
//		first <n>
//		match <text>
//		everything
//	}
func unmarshalFault(d *caddyfile.Dispenser) (Fault, error) {
	words := d.RemainingArgs()
	if len(words) == 0 {
		return Fault{}, d.ArgErr()
	}
	f := Fault{Fault: strings.Join(words, " ")}
	seen := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		condition := d.Val()
		if seen[condition] {
			return f, d.Errf("condition '%s' is given twice", condition)
		}
		seen[condition] = true
		var err error
		switch condition {
		case "rate":
			err = rate(d, &f.Rate)
		case "every":
			err = count(d, &f.Every)
		case "first":
			err = count(d, &f.First)
		case "match":
			err = text(d, &f.Match)
		case "everything":
			if f.Everything = true; d.NextArg() {
				err = d.ArgErr()
			}
		default:
			err = d.Errf("unknown condition '%s'; have rate, every, first, match, everything", condition)
		}
		if err != nil {
			return f, err
		}
	}
	// A mistake shows at the fault's own lines.
	if _, err := f.resolve(); err != nil {
		return f, d.WrapErr(err)
	}
	return f, nil
}

func rate(d *caddyfile.Dispenser, to *float64) error {
	var value string
	if err := text(d, &value); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || !(f > 0 && f <= 1) {
		return d.Errf("parsing rate '%s': want a share above 0 and up to 1", value)
	}
	*to = f
	return nil
}
