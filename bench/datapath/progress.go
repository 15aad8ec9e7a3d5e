package main

import (
	"fmt"
	"os"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// progress says on one line what is being done, how much of all is, and how long the
// rest will take. Where nobody watches, it says it when the line is another one, at
// most every ten seconds.
type progress struct {
	to   *os.File
	last time.Time

	begun     time.Time     // when measuring began
	all, done time.Duration // of measuring, as it was estimated
}

func (p *progress) say(format string, args ...any) {
	line := p.line(time.Since(p.begun), fmt.Sprintf(format, args...))
	switch {
	case command.Terminal(p.to):
		fmt.Fprintf(p.to, "\r\x1b[K%s", line)
	case time.Since(p.last) >= 10*time.Second:
		p.last = time.Now()
		fmt.Fprintln(p.to, line)
	}
}

// settling is for how much of a run the estimate is believed, as if it had come true
// for so long before it began.
const settling = 10 * time.Second

func (p *progress) line(took time.Duration, text string) string {
	if p.all == 0 {
		return text
	}
	left := time.Duration(float64(p.all-p.done) * float64(took+settling) / float64(p.done+settling)).Round(time.Second)
	return fmt.Sprintf("%2d %%, about %d:%02d left  %s", 100*p.done/p.all, int(left.Minutes()), int(left.Seconds())%60, text)
}

// passed is called when some of it is over, of which it was estimated to take so long.
func (p *progress) passed(d time.Duration) { p.done = min(p.done+d, p.all) }

// note says something that stays.
func (p *progress) note(format string, args ...any) {
	p.end()
	fmt.Fprintf(p.to, format+"\n", args...)
}

func (p *progress) end() {
	if command.Terminal(p.to) {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
}
