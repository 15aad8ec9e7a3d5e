package cli

import (
	"fmt"
	"math"
	"strconv"
)

// tokens prints a count of tokens, or of tokens a second.
func tokens(x *float64) string {
	if x == nil {
		return unknown
	}
	return grouped(*x)
}

// grouped prints a whole number with commas between the thousands.
func grouped(x float64) string {
	digits := strconv.FormatFloat(math.Abs(math.Round(x)), 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if math.Round(x) < 0 {
		return "-" + digits
	}
	return digits
}

// fineLatency is latency for times of a few milliseconds, where a tenth counts.
func fineLatency(ms *float64) string {
	if ms != nil && *ms < 9.95 {
		return fmt.Sprintf("%.1fms", *ms)
	}
	return latency(ms)
}

// requests prints how many requests there are. Those of others fade as their
// numbers age, so a few may be less than one.
func requests(x float64) string {
	if x != math.Trunc(x) && x < 9.95 {
		return fmt.Sprintf("%.1f", x)
	}
	return grouped(x)
}

func orUnknown(s string) string {
	if s == "" {
		return unknown
	}
	return s
}
