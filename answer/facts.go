package answer

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// Facts is what an answer has told so far.
type Facts struct {
	// Tokens counts the events in which something was generated; of an answer
	// that comes whole it is 1 at most.
	Tokens int

	// Finished says that the dialect's own mark of the end was seen, such as a
	// finish_reason, message_stop or "done":true. An answer that comes whole is
	// finished when its outermost object or array has closed.
	Finished bool

	// Done says that data: [DONE] was seen.
	Done bool

	// Failed says that an error was told in an answer that began as a success.
	// Overloaded and Status are about the first such error.
	Failed bool

	// Overloaded says that the error means "too much to do" rather than "broken".
	Overloaded bool

	// Status is the HTTP status that the error stands for: the engine's own code
	// when that is one, else what its words say, else 500. 0 unless Failed.
	Status int

	// Usage in tokens, llmlb.Unknown where it was not told. Prompt includes what
	// was Cached, in every dialect.
	Prompt, Cached, Output int
}

// Whole reports whether the answer has come to its proper end. More may follow,
// such as usage.
func (f *Facts) Whole() bool { return f.Finished || f.Done }

// tally is the facts and what is needed to work them out.
type tally struct {
	Facts

	counts int // numbers of usage so far

	// Anthropic's prompt comes in three parts, of which Cached is one.
	uncached, written int

	blame  blame // of the current event
	blamed bool  // the error was in an event before the current one
}

func newTally() tally {
	return tally{
		Facts:    Facts{Prompt: llmlb.Unknown, Cached: llmlb.Unknown, Output: llmlb.Unknown},
		uncached: llmlb.Unknown, written: llmlb.Unknown,
	}
}

// count takes in a number that stands at p. Usage may come in every event, so
// the last one counts.
func (t *tally) count(p place, n int) {
	switch p {
	case prompt:
		t.Prompt = n
	case output:
		t.Output = n
	case cached:
		t.Cached = n
	case uncached:
		t.uncached = n
		t.addUp()
	case reread:
		t.Cached = n
		t.addUp()
	case written:
		t.written = n
		t.addUp()
	case total:
		if t.Prompt >= 0 {
			return // the precise number stood before
		}
		t.Prompt = n
	case addend:
		t.Prompt = min(max(0, t.Prompt)+n, maxNumber)
	case code, httpCode:
		t.blame.number(n, p == httpCode)
		t.judge()
		return
	default: // a number we have no use for
		return
	}
	t.counts++
}

// addUp makes a prompt of its parts.
func (t *tally) addUp() {
	t.Prompt = max(0, t.uncached) + max(0, t.Cached) + max(0, t.written)
}

// next makes ready for another event, which has errors of its own.
func (t *tally) next() {
	t.blame = blame{}
	t.blamed = t.Failed
}

// fail notes that the current event tells an error. What it says of it may come
// before or after.
func (t *tally) fail() {
	t.blame.told = true
	t.Failed = true
	t.judge()
}

func (t *tally) judge() {
	if t.blame.told && !t.blamed {
		t.Status, t.Overloaded = t.blame.verdict()
	}
}
