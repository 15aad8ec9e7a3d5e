package loadgen

import "time"

// The outcomes of a request; each has one.
const (
	// OK is an answer that came to its proper end: finish_reason and [DONE].
	OK = "ok"
	// Truncated is an answer that began and has no such end.
	Truncated = "truncated"
	// Refused is status 429.
	Refused = "refused"
	// Unavailable is status 503.
	Unavailable = "unavailable"
	// Failed is any other error that the server told: a status, or an error in a
	// stream, or an answer that is no stream of events.
	Failed = "error"
	// Unreachable is no answer at all.
	Unreachable = "unreachable"
	// TimedOut is an answer that took longer than the timeout.
	TimedOut = "timeout"
	// Unsent is a request of an open loop beyond the bound on open ones.
	Unsent = "unsent"
	// Stopped is a request that was open when the run was ended early. It counts
	// as offered; in the goodput only when it had missed its SLO by then.
	Stopped = "stopped"
)

// outcomes in the order in which they are shown.
var outcomes = []string{OK, Truncated, Refused, Unavailable, Failed, Unreachable, TimedOut, Unsent, Stopped}

// sample is one request that has ended.
type sample struct {
	class    int
	tenant   string
	endpoint string        // as the server's X-LLM-Endpoint says
	at       time.Duration // since the begin, when it was to be sent
	late     time.Duration // how much later than that it was sent
	outcome  string
	status   int    // 0 for no answer
	message  string // what went wrong

	ttft   time.Duration   // 0 for no token
	e2e    time.Duration   // to the last byte
	gaps   []time.Duration // between tokens
	input  int             // tokens
	cached int             // tokens of input
	output int             // tokens
}

// tpot is the mean time between two tokens, 0 where there are not two.
func (s *sample) tpot() time.Duration {
	if s.output < 2 || s.ttft == 0 {
		return 0
	}
	return (s.e2e - s.ttft) / time.Duration(s.output-1)
}

// good says whether the request finished within the SLO.
func (s *sample) good(c *Class) bool {
	return s.outcome == OK && s.ttft <= time.Duration(c.SLOTTFT) && s.tpot() <= time.Duration(c.SLOTPOT)
}

// undecided says that nobody knows whether it would have been good.
func (s *sample) undecided(c *Class) bool {
	if s.outcome != Stopped {
		return false
	}
	first := s.ttft
	if first == 0 {
		first = s.e2e // still waiting
	}
	return first <= time.Duration(c.SLOTTFT)
}
