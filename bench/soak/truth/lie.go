package truth

// Kind is a way in which a gateway can do wrong.
type Kind string

// The ways.
const (
	// Doubled: something came twice.
	Doubled Kind = "doubled"

	// Missing: something in the middle did not come.
	Missing Kind = "missing"

	// MixedUp: something is another request's.
	MixedUp Kind = "mixed up"

	// Spliced: an answer is made of two.
	Spliced Kind = "spliced"

	// Garbage: something is not what was sent.
	Garbage Kind = "garbage"

	// CutSilently: a cut answer looks whole.
	CutSilently Kind = "cut silently"

	// CutForNothing: an answer broke off, and nothing was done to its server.
	CutForNothing Kind = "cut for nothing"

	// Lost: no answer and no error came.
	Lost Kind = "lost"

	// Refused: an error came, and nothing had happened that explains it.
	Refused Kind = "refused for nothing"

	// AskedAgain: a server was asked although the client had a token already, or
	// had left, or more often than may be, or while another one still generated.
	AskedAgain Kind = "asked again"

	// Abandoned: a server generates on for a client that has left.
	Abandoned Kind = "abandoned"

	// Undrained: a draining server got new work.
	Undrained Kind = "undrained"

	// Corrupt: a server got another body than the client sent.
	Corrupt Kind = "corrupt"
)

// Lie is one thing that is wrong.
type Lie struct {
	Kind Kind   `json:"kind"`
	Text string `json:"text"`
}

func (l Lie) String() string { return string(l.Kind) + ": " + l.Text }
