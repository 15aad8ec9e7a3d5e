package loadgen

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Size is how many tokens something has, as a distribution:
//
//	512         always
//	128-2048    anything in between, each alike
//	exp:512     exponential with that mean, eight times the mean at most
type Size struct {
	Kind string
	A, B int
}

const (
	fixed       = "fixed"
	between     = "between"
	exponential = "exp"
)

// cutoff bounds what an exponential size may be, in means. Beyond are 3 of
// 10,000, which would be longer than a server's context and not be served.
const cutoff = 8

// ParseSize reads a distribution.
func ParseSize(text string) (z Size, err error) {
	low, high, ranged := strings.Cut(text, "-")
	mean, exp := strings.CutPrefix(text, "exp:")
	switch {
	case exp:
		z.Kind = exponential
		z.A, err = tokens(mean)
	case ranged:
		z.Kind = between
		if z.A, err = tokens(low); err == nil {
			z.B, err = tokens(high)
		}
		if err == nil && z.B < z.A {
			err = fmt.Errorf("%d is more than %d", z.A, z.B)
		}
	default:
		z.Kind = fixed
		z.A, err = tokens(text)
	}
	if err != nil {
		return Size{}, fmt.Errorf("reading tokens %q: %w; have 512, 128-2048 or exp:512", text, err)
	}
	return z, nil
}

func tokens(text string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	if n < 1 || n > maxTokens {
		return 0, fmt.Errorf("%d is not within 1 to %d", n, maxTokens)
	}
	return n, nil
}

// draw is one size, 1 at least.
func (z Size) draw(r *rand.Rand) int {
	switch z.Kind {
	case between:
		return z.A + r.IntN(z.B-z.A+1)
	case exponential:
		x := min(r.ExpFloat64(), cutoff)
		return max(1, int(math.Round(x*float64(z.A))))
	}
	return z.A
}

func (z Size) String() string {
	switch z.Kind {
	case between:
		return fmt.Sprintf("%d-%d", z.A, z.B)
	case exponential:
		return fmt.Sprintf("exp:%d", z.A)
	}
	return strconv.Itoa(z.A)
}

// UnmarshalJSON takes a number or what ParseSize reads.
func (z *Size) UnmarshalJSON(raw []byte) (err error) {
	*z, err = ParseSize(strings.Trim(string(raw), `"`))
	return err
}

// MarshalJSON writes what UnmarshalJSON reads.
func (z Size) MarshalJSON() ([]byte, error) {
	if z.Kind == fixed {
		return []byte(strconv.Itoa(z.A)), nil
	}
	return strconv.AppendQuote(nil, z.String()), nil
}
