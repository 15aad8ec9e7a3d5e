package truth

// A Fault is what a server does to one request, besides serving it.
type Fault string

// The faults.
const (
	NoFault Fault = "-"

	// Before the first token: another server can be asked.
	ResetEarly    Fault = "reset"          // the connection is reset before an answer
	CloseEarly    Fault = "close"          // it is closed before an answer
	Status500     Fault = "500"            // an error of the engine
	Status503     Fault = "503"            // it says that it is full
	Status429     Fault = "429"            // likewise, with a pause
	EarlyRefusal  Fault = "early 503"      // likewise, before the body was read
	Silence       Fault = "silence"        // nothing comes
	HeadOnly      Fault = "head only"      // the head of a stream comes, and no token
	ErrorFirst    Fault = "error first"    // an error event in place of the first token
	Empty         Fault = "empty"          // a stream with nothing in it
	NotHTTP       Fault = "no http"        // what comes is no HTTP
	BrokenHead    Fault = "broken head"    // the head breaks off
	RoleThenClose Fault = "role, then cut" // a role chunk, which is no token, then the end

	// After the first token: the client sees that the answer is cut.
	CutLate     Fault = "cut"          // the connection is closed
	ResetLate   Fault = "cut by reset" // it is reset
	StallLate   Fault = "stall"        // nothing more comes
	ErrorLate   Fault = "error later"  // an error event
	NoFinish    Fault = "no finish"    // a clean end without a finish marker
	ShortLength Fault = "short length" // a document shorter than its Content-Length

	// Of no consequence: the answer arrives as it is.
	SlowHead   Fault = "slow head"    // the head comes late
	Malformed  Fault = "malformed"    // one event is no JSON
	NoDone     Fault = "no done"      // [DONE] is missing
	Trickle    Fault = "trickle"      // events come in small parts
	CloseAfter Fault = "close after"  // the connection closes behind the answer
	BadRequest Fault = "400"          // the client is to blame, it says
	Comments   Fault = "comments"     // comments between events
	LateBody   Fault = "body read on" // the body is read slowly
)

// Early and Late list the faults that show before the first token, and after it,
// and Harmless the others; Streams says which of them only a stream can have.
var (
	Early = []Fault{
		ResetEarly, CloseEarly, Status500, Status503, Status429, EarlyRefusal, Silence, HeadOnly,
		ErrorFirst, Empty, NotHTTP, BrokenHead, RoleThenClose,
	}
	Late     = []Fault{CutLate, ResetLate, StallLate, ErrorLate, NoFinish, ShortLength}
	Harmless = []Fault{SlowHead, Malformed, NoDone, Trickle, CloseAfter, BadRequest, Comments, LateBody}

	streamsOnly = set(Silence, HeadOnly, ErrorFirst, Empty, RoleThenClose, CutLate, ResetLate, StallLate, ErrorLate, NoFinish, Malformed, NoDone, Comments)
	wholeOnly   = set(ShortLength)
	early       = set(Early...)
	late        = set(Late...)
	full        = set(Status503, Status429, EarlyRefusal)
)

// Fits says whether a stream, or an answer in one piece, can have the fault.
// Silence has no deadline where no stream was asked for.
func (f Fault) Fits(stream bool) bool {
	return stream && !wholeOnly[f] || !stream && !streamsOnly[f]
}

func set(list ...Fault) map[Fault]bool {
	m := make(map[Fault]bool, len(list))
	for _, f := range list {
		m[f] = true
	}
	return m
}
