//go:build linux

package main

import (
	"fmt"
	"os"
	"time"
)

// progress tells how a run goes: on a terminal in one line that is written over,
// elsewhere in a line every ten seconds.
type progress struct {
	*run
	phase    string
	length   time.Duration
	began    time.Time
	terminal bool
	ticks    int
}

// width is how long a line that is written over may be, in characters: one that needs
// two lines of a terminal cannot be taken back.
const width = 79

// tick is called once a second.
func (p *progress) tick() {
	p.ticks++
	if !p.terminal && p.ticks%10 != 0 {
		return
	}
	at := min(time.Since(p.began), p.length)
	m, _ := p.gateway.metrics() // a missing number shows as 0
	if p.terminal {
		fmt.Fprintf(os.Stderr, "\r%s\x1b[K", p.line(at, m))
		return
	}
	fmt.Fprintln(os.Stderr, p.line(at, m))
}

// over ends the line.
func (p *progress) over() {
	if p.terminal {
		fmt.Fprintln(os.Stderr)
	}
}

// line tells on a terminal what one line holds. What has been judged are the requests
// that ended a while ago: fewer than were sent.
func (p *progress) line(at time.Duration, m metrics) string {
	b := p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	judged := 0
	for _, n := range b.words {
		judged += n
	}
	begin := fmt.Sprintf("%s %.0fs/%.0fs sent %d open %d judged %d", p.phase, at.Seconds(), p.length.Seconds(), p.crowd.sent.Load(), p.crowd.open.Load(), judged)
	end := fmt.Sprintf(" failed checks %d; %.0f MB", b.nLies, m.sums["process_resident_memory_bytes"]/1e6)
	if p.terminal {
		line := begin + end
		return line[:min(len(line), width)]
	}
	return fmt.Sprintf("%s: whole %d cut %d left %d refused %d, by more than one engine %d;%s %.0f goroutines %.0f files",
		begin, b.words["whole"], b.words["cut"]+b.words["cut in trouble"], b.words["left"], b.words["refused"]+b.words["refused in trouble"], b.again,
		end, m.sums["go_goroutines"], m.sums["process_open_fds"])
}

// residentBytes is a process's resident memory; 0 when it has ended.
func residentBytes(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	var size, resident float64
	if _, err := fmt.Sscan(string(text), &size, &resident); err != nil {
		return 0
	}
	return resident * float64(os.Getpagesize())
}
