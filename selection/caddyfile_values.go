package selection

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/dustin/go-humanize"
)

// arguments returns the arguments of the option that the dispenser stands on.
func arguments(d *caddyfile.Dispenser, least, most int) ([]string, error) {
	name := d.Val()
	args := d.RemainingArgs()
	switch {
	case len(args) < least:
		return nil, d.Errf("option '%s' needs a value", name)
	case len(args) > most:
		return nil, d.Errf("unexpected argument '%s' after option '%s'", args[most], name)
	}
	return args, nil
}

// readWord reads a value that must not be empty and that check, if any, passes.
func readWord(d *caddyfile.Dispenser, to *string, check func(string) error) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	if args[0] == "" || strings.ContainsAny(args[0], "\r\n") {
		return d.Errf("option '%s' needs a value of one line", name)
	}
	if check != nil {
		if err := check(args[0]); err != nil {
			return d.WrapErr(err)
		}
	}
	*to = args[0]
	return nil
}

func readChoice(d *caddyfile.Dispenser, to *string, have []string) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	if !slices.Contains(have, args[0]) {
		return d.Errf("unknown %s '%s'; have %s", name, args[0], strings.Join(have, ", "))
	}
	*to = args[0]
	return nil
}

func readDuration(d *caddyfile.Dispenser, to *caddy.Duration) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	n, err := caddy.ParseDuration(args[0])
	if err != nil || n <= 0 {
		return d.Errf("bad %s '%s'; have a duration such as 500ms or 2s", name, args[0])
	}
	*to = caddy.Duration(n)
	return nil
}

func readSize(d *caddyfile.Dispenser, to *int64) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	n, err := humanize.ParseBytes(args[0])
	if err != nil || n == 0 || n > 1<<62 {
		return d.Errf("bad %s '%s'; have a size such as 64MiB", name, args[0])
	}
	*to = int64(n)
	return nil
}

func readCount(d *caddyfile.Dispenser, to *int, most int) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 || n > most {
		return d.Errf("bad %s '%s'; have 1 to %d", name, args[0], most)
	}
	*to = n
	return nil
}

func readWeight(d *caddyfile.Dispenser, to *float64) error {
	name := d.Val()
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	w, err := strconv.ParseFloat(args[0], 64)
	if err != nil || !(w >= minWeight && w <= maxWeight) {
		return d.Errf("bad %s '%s'; have %v to %v", name, args[0], minWeight, maxWeight)
	}
	*to = w
	return nil
}

// readBlock reads the block that may follow the option's line, each option in it
// once, and tells how many there were.
func readBlock(d *caddyfile.Dispenser, name string, read func(*caddyfile.Dispenser) error) (int, error) {
	given := make(map[string]bool)
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		option := d.Val()
		if given[option] {
			return 0, d.Errf("option '%s' of '%s' is given twice", option, name)
		}
		given[option] = true
		switch err := read(d); {
		case err == nil:
		case strings.Contains(err.Error(), name):
			return 0, err
		default:
			return 0, fmt.Errorf("option '%s': %w", name, err) // which tells the line
		}
	}
	return len(given), nil
}
