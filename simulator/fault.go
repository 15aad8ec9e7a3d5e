package simulator

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// The words for faults. The Caddyfile, the request header and the admin route
// share them.
const (
	faultRefuse          = "refuse"
	faultReset           = "reset"
	faultSilence         = "silence"
	faultHeadersSilence  = "headers_silence"
	faultSlowFirstToken  = "slow_first_token"
	faultStatus          = "status"
	faultLoading         = "loading"
	faultErrorFirst      = "error_first"
	faultErrorAfter      = "error_after"
	faultCutAfter        = "cut_after"
	faultStallAfter      = "stall_after"
	faultMalformedAfter  = "malformed_after"
	faultNoDone          = "no_done"
	faultNoEnd           = "no_end"
	faultCloseAfterReply = "close_after_reply"
	faultTrickle         = "trickle"
)

// faultForms says of each fault how it is written.
var faultForms = map[string]string{
	faultRefuse:          "refuse",
	faultReset:           "reset",
	faultSilence:         "silence",
	faultHeadersSilence:  "headers_silence",
	faultSlowFirstToken:  "slow_first_token <duration>",
	faultStatus:          "status <400 to 599> [retry_after <seconds|text>]",
	faultLoading:         "loading [<duration>]",
	faultErrorFirst:      "error_first [<400 to 599> [<message>]]",
	faultErrorAfter:      "error_after <tokens> [<400 to 599> [<message>]]",
	faultCutAfter:        "cut_after <tokens>",
	faultStallAfter:      "stall_after <tokens>",
	faultMalformedAfter:  "malformed_after <tokens>",
	faultNoDone:          "no_done",
	faultNoEnd:           "no_end",
	faultCloseAfterReply: "close_after_reply [reused]",
	faultTrickle:         "trickle <duration>",
}

// faultNames lists the faults for error messages, in the order of an answer.
var faultNames = strings.Join([]string{
	faultRefuse, faultReset, faultSilence, faultHeadersSilence, faultSlowFirstToken, faultStatus, faultLoading,
	faultErrorFirst, faultErrorAfter, faultCutAfter, faultStallAfter, faultMalformedAfter, faultNoDone, faultNoEnd,
	faultCloseAfterReply, faultTrickle,
}, ", ")

const (
	// maxFaultText bounds a fault with its arguments, in bytes.
	maxFaultText = 1024

	// maxFaultTokens bounds after how many tokens a fault comes.
	maxFaultTokens = 1_000_000

	// maxFaultWait bounds the durations.
	maxFaultWait = 24 * time.Hour
)

// fault is what happens to a request. The zero fault is none.
type fault struct {
	kind       string
	after      int           // tokens
	wait       time.Duration // real time, whatever the speed
	code       int
	message    string // empty: what engines say with that code
	retryAfter string
	reused     bool
}

// parseFault reads a fault and its arguments.
func parseFault(text string) (fault, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return fault{}, errors.New("a fault is empty; have " + faultNames)
	}
	f := fault{kind: words[0]}
	form, ok := faultForms[f.kind]
	switch {
	case !ok:
		return fault{}, fmt.Errorf("unknown fault %q; have %s", words[0], faultNames)
	case len(text) > maxFaultText:
		return fault{}, fmt.Errorf("reading a fault of %d bytes: at most %d are allowed", len(text), maxFaultText)
	}
	if err := f.read(words[1:]); err != nil {
		return fault{}, fmt.Errorf("reading fault %q: %w; write %s", text, err, form)
	}
	return f, nil
}

// read takes the arguments of a fault whose kind is set.
func (f *fault) read(args []string) (err error) {
	switch f.kind {
	case faultCutAfter, faultStallAfter, faultMalformedAfter:
		args, err = f.readTokens(args)
	case faultErrorAfter:
		f.code = 500
		if args, err = f.readTokens(args); err == nil {
			args, err = f.readError(args)
		}
	case faultErrorFirst:
		f.code = 503
		args, err = f.readError(args)
	case faultStatus:
		args, err = f.readStatus(args)
	case faultSlowFirstToken, faultTrickle:
		args, err = f.readWait(args)
	case faultLoading:
		if len(args) > 0 {
			args, err = f.readWait(args)
		}
	case faultCloseAfterReply:
		if len(args) > 0 && args[0] == "reused" {
			f.reused, args = true, args[1:]
		}
	}
	if err == nil && len(args) > 0 {
		err = fmt.Errorf("argument %q is one too many", args[0])
	}
	return err
}

func (f *fault) readTokens(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("the number of tokens is missing")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 0 || n > maxFaultTokens {
		return nil, fmt.Errorf("%q is no number of tokens from 0 to %d", args[0], maxFaultTokens)
	}
	f.after = n
	return args[1:], nil
}

func (f *fault) readWait(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("the duration is missing")
	}
	d, err := caddy.ParseDuration(args[0])
	if err != nil || d <= 0 || d > maxFaultWait {
		return nil, fmt.Errorf("%q is no duration above 0 and up to %v, such as 500ms", args[0], maxFaultWait)
	}
	f.wait = d
	return args[1:], nil
}

// readError takes an error's code and message, both optional.
func (f *fault) readError(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, nil
	}
	args, err := f.readCode(args)
	f.message = strings.Join(args, " ")
	return nil, err
}

func (f *fault) readStatus(args []string) ([]string, error) {
	args, err := f.readCode(args)
	if err != nil || len(args) == 0 || args[0] != "retry_after" {
		return args, err
	}
	if f.retryAfter = strings.Join(args[1:], " "); f.retryAfter == "" {
		return nil, errors.New("what retry_after says is missing")
	}
	for _, c := range []byte(f.retryAfter) {
		if c < ' ' || c > '~' {
			return nil, errors.New("a header holds printable ASCII only")
		}
	}
	return nil, nil
}

func (f *fault) readCode(args []string) ([]string, error) {
	if len(args) == 0 {
		return nil, errors.New("the status is missing")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 400 || n > 599 {
		return nil, fmt.Errorf("%q is no status from 400 to 599", args[0])
	}
	f.code = n
	return args[1:], nil
}

// strikesAt says after how many tokens the answer breaks, or -1.
func (f fault) strikesAt() int {
	switch f.kind {
	case faultErrorAfter, faultCutAfter, faultStallAfter:
		return f.after
	}
	return -1
}
