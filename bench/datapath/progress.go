package main

import (
	"fmt"
	"os"
	"time"
)

// progress says on one line what is being done, and since when. Where nobody
// watches, it says it when the line is another one, at most every ten seconds.
type progress struct {
	to    *os.File
	begun time.Time
	last  time.Time
}

func (p *progress) terminal() bool {
	info, err := p.to.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) say(format string, args ...any) {
	if p.begun.IsZero() {
		p.begun = time.Now()
	}
	line := fmt.Sprintf("%4.0f s  ", time.Since(p.begun).Seconds()) + fmt.Sprintf(format, args...)
	switch {
	case p.terminal():
		fmt.Fprintf(p.to, "\r\x1b[K%s", line)
	case time.Since(p.last) >= 10*time.Second:
		p.last = time.Now()
		fmt.Fprintln(p.to, line)
	}
}

// note says something that stays.
func (p *progress) note(format string, args ...any) {
	if p.terminal() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	fmt.Fprintf(p.to, format+"\n", args...)
}

func (p *progress) end() {
	if p.terminal() {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
