package trace

import "time"

// Trace is a workload.
type Trace struct {
	// Name says where it is from, for reports.
	Name string

	// Block is how many tokens each of a request's Blocks stands for. 0 where no
	// request has any.
	Block int

	// Requests are in the order of their arrival; those that follow others come
	// after them.
	Requests []Request
}

// Request is one request of a trace.
type Request struct {
	// At is when it arrives, from the beginning of the trace. Of one that follows
	// another it means nothing.
	At time.Duration

	// Follows is how many places before this one in Trace.Requests the request is
	// whose end it waits for: the turn before of the same conversation. 0 is none:
	// it arrives at At, whatever becomes of others.
	Follows int

	// Think is how long after that end it arrives.
	Think time.Duration

	// Input and Output are lengths in tokens, of the prompt and the answer. Both
	// are at least 1.
	Input, Output int

	// Blocks are the ids of the prompt's pieces of Trace.Block tokens. They are
	// chained: an id stands for a piece and all before it, so that prompts share
	// as many tokens as they have leading ids in common. The last piece may be
	// shorter. Where the trace knows, they go on into the answer; where it knows
	// nothing of prefixes they are nil, and the prompt is like no other.
	Blocks []uint64

	// Client is who asks, or "".
	Client string

	// Conversation tells its conversation from all others, as the beginning of a real
	// prompt does to a gateway. 0: only Blocks can tell.
	Conversation uint64
}
