package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
)

// tokens reads a length. Some tools write whole numbers as 12.0.
func tokens(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		x, ferr := strconv.ParseFloat(text, 64)
		switch {
		case ferr != nil && !errors.Is(ferr, strconv.ErrRange):
			return 0, fmt.Errorf("%q is not a number", text)
		case x != math.Trunc(x) || math.IsNaN(x):
			return 0, fmt.Errorf("%q is not a whole number", text)
		}
		n = int(max(-1, min(x, maxTokens+1)))
	}
	if n < least || n > maxTokens {
		return 0, fmt.Errorf("%s tokens are not within %d to %d", text, least, maxTokens)
	}
	return n, nil
}

// milliseconds reads a time since any zero, to the nanosecond.
func milliseconds(text string) (time.Duration, error) {
	// What a Duration can hold: it reaches from 1970 to 2262.
	const limit = int64(math.MaxInt64 / time.Millisecond)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		if n < 0 || n > limit {
			return 0, fmt.Errorf("%s is not within 0 to %d ms", text, limit)
		}
		return time.Duration(n) * time.Millisecond, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(x) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	if x < 0 || x >= float64(limit) {
		return 0, fmt.Errorf("%s is not within 0 to %d ms", text, limit)
	}
	return time.Duration(math.Round(x * float64(time.Millisecond))), nil
}

// byArrival orders requests that follow no others.
func byArrival(a, b Request) int { return cmp.Compare(a.At, b.At) }
