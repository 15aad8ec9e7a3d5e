package llmlb

// Outcome is how an Attempt, or a whole Call, ended.
type Outcome uint8

// The outcomes. Only EngineError, FirstTokenTimeout, Truncated and Unreachable
// speak against an endpoint; Overloaded is not sickness, and a client that
// leaves or sends nonsense says nothing about the server.
const (
	OutcomeNone       Outcome = iota // not ended yet
	Served                           // a whole answer, errors of the client's own making (4xx) included
	Truncated                        // the stream ended without its finish marker
	EngineError                      // 5xx, an error event, or a broken answer
	Overloaded                       // 429, 503, 529, or the same in band
	FirstTokenTimeout                // silence past the first-token deadline
	Unreachable                      // refused, reset, TLS or dial failure before any response
	ClientGone                       // the client left
	Refused                          // never sent: answered here
	outcomes
)

var outcomeNames = [outcomes]string{
	"none", "served", "truncated", "engine_error", "overloaded",
	"first_token_timeout", "unreachable", "client_gone", "refused",
}

// Failed reports whether the outcome leaves phantom load: the endpoint did not
// do the work that was meant for it.
func (o Outcome) Failed() bool {
	switch o {
	case Truncated, EngineError, Overloaded, FirstTokenTimeout, Unreachable:
		return true
	default:
		return false
	}
}

// String returns the name used in logs and as a metric label.
func (o Outcome) String() string {
	if o >= outcomes {
		return "unknown"
	}
	return outcomeNames[o]
}

// Outcomes lists every outcome that can be counted, in order.
func Outcomes() []Outcome {
	list := make([]Outcome, 0, outcomes-1)
	for o := Served; o < outcomes; o++ {
		list = append(list, o)
	}
	return list
}
