package command

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// ErrInterrupted says that the user wanted no more of it.
var ErrInterrupted = errors.New("interrupted")

type usageError struct{ error }

// Wrong is an error of the options: exit status 2.
func Wrong(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Status is the exit status for an error: 0 for none and for help, 2 for wrong
// options, 130 for an interrupt as shells have it, 1 for everything else.
func Status(err error) int {
	_, wrong := errors.AsType[usageError](err)
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
		return 0
	case wrong:
		return 2
	case errors.Is(err, ErrInterrupted):
		return 130
	default:
		return 1
	}
}

// Parse reads the options. Help goes to standard output; what is wrong is one line,
// and no help with it.
func Parse(f *flag.FlagSet, args []string, help func(io.Writer)) error {
	f.Init(f.Name(), flag.ContinueOnError)
	f.SetOutput(io.Discard)
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		f.SetOutput(os.Stdout)
		help(os.Stdout)
		return err
	}
	if err != nil {
		return Wrong("%s", inWords(err.Error()))
	}
	empty := ""
	f.Visit(func(x *flag.Flag) {
		if x.Value.String() == "" {
			empty = x.Name
		}
	})
	switch {
	case empty != "":
		return Wrong("-%s is given, and nothing after it: is a variable of your script empty?", empty)
	case f.NArg() > 0:
		return Wrong("what is %q? Options begin with -; see -help", f.Arg(0))
	}
	return nil
}

// inWords says what the flag package says without speaking of its code.
func inWords(text string) string {
	if name, ok := strings.CutPrefix(text, "flag provided but not defined: "); ok {
		return fmt.Sprintf("there is no option %s; see -help", name)
	}
	for _, end := range []string{"parse error", "value out of range"} {
		if before, ok := strings.CutSuffix(text, end); ok {
			return before + "that is not what it takes"
		}
	}
	return text
}

// span is an option that is a time: one without a unit is told what it lacks.
type span time.Duration

func (s *span) String() string { return time.Duration(*s).String() }

func (s *span) Set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		return errors.New("a time has a unit, as in 500ms, 5s or 10m")
	}
	*s = span(d)
	return nil
}

// SpanVar defines an option that is a time.
func SpanVar(f *flag.FlagSet, at *time.Duration, name string, preset time.Duration, usage string) {
	*at = preset
	f.Var((*span)(at), name, usage)
}
