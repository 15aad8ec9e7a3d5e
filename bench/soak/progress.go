//go:build linux

package main

import (
	"fmt"
	"os"
	"strings"
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

// barWidth is the bar's length on a terminal, in characters.
const barWidth = 20

// tick is called once a second.
func (p *progress) tick() {
	p.ticks++
	if !p.terminal && p.ticks%10 != 0 {
		return
	}
	at := min(time.Since(p.began), p.length)
	if p.terminal {
		full := int(barWidth * at / p.length)
		fmt.Fprintf(os.Stderr, "\r[%s%s] %s\x1b[K", strings.Repeat("#", full), strings.Repeat("-", barWidth-full), p.line(at))
		return
	}
	fmt.Fprintln(os.Stderr, p.line(at))
}

// over ends the line.
func (p *progress) over() {
	if p.terminal {
		fmt.Fprintln(os.Stderr)
	}
}

func (p *progress) line(at time.Duration) string {
	m, _ := p.gateway.metrics() // a missing number shows as 0
	b := p.book
	b.mu.Lock()
	defer b.mu.Unlock()
	return fmt.Sprintf("%s %.0fs/%.0fs sent %d open %d whole %d cut %d left %d refused %d again %d lies %d; %.0f MB %.0f goroutines %.0f files",
		p.phase, at.Seconds(), p.length.Seconds(), p.crowd.sent.Load(), p.crowd.open.Load(), b.words["whole"], b.words["cut"]+b.words["cut in trouble"],
		b.words["left"], b.words["refused"]+b.words["refused in trouble"], b.again, b.nLies,
		m.sums["process_resident_memory_bytes"]/1e6, m.sums["go_goroutines"], m.sums["process_open_fds"])
}

// isTerminal says whether somebody looks at the file.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
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
