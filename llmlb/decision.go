package llmlb

import "time"

// Reason says in a word why an endpoint was chosen.
type Reason uint8

// The reasons, as they appear in headers, logs and metrics.
const (
	ReasonNone         Reason = iota
	ReasonWarm                // it holds the prompt's prefix
	ReasonSpillWaiting        // the warm endpoint had too many requests waiting
	ReasonSpillTTFT           // the warm endpoint's time to first token was too long
	ReasonSpillLoad           // computing the prefix again elsewhere is predicted to be faster
	ReasonSpillExplore        // a busy prefix is given another home
	ReasonCold                // no endpoint holds a useful prefix
	ReasonOnly                // no other endpoint could be used
	ReasonPolicy              // a policy of Caddy's own chose it
	ReasonTrial               // it was down, and is tried again
	reasons
)

var reasonNames = [reasons]string{"none", "warm", "spill:waiting", "spill:ttft", "spill:load", "spill:explore", "cold", "only", "policy", "trial"}

// String returns the word used in headers, logs and as a metric label.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return reasonNames[r]
}

// Reasons lists every reason a choice can have, in order.
func Reasons() []Reason {
	list := make([]Reason, 0, reasons-1)
	for r := ReasonWarm; r < reasons; r++ {
		list = append(list, r)
	}
	return list
}

// Decision is a choice and what it was based on.
type Decision struct {
	Reason Reason

	// Matched is how many prompt tokens the chosen endpoint is believed to
	// hold in its KV cache; Best is the longest match on any endpoint.
	Matched int
	Best    int

	// Left is the warm endpoint that a spill has left, empty otherwise.
	Left string

	// Warm is how many usable endpoints held the prefix.
	Warm int

	// Predicted is the predicted time to first token at the chosen endpoint.
	Predicted time.Duration
}
