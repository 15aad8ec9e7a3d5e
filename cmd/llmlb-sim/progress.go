package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
)

// progress is a line on a terminal that tells how far all runs are. It appears
// once they have taken a moment. Elsewhere than on a terminal there is none.
type progress struct {
	w          io.Writer // nil: tells nothing
	mu         sync.Mutex
	begun      time.Time
	ended, all int
	name       string
	quit       chan struct{}
	quitted    sync.WaitGroup
	drawn      bool
}

const (
	redraw   = 200 * time.Millisecond
	patience = time.Second
	barWidth = 24
)

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{quit: make(chan struct{}), begun: time.Now()}
	if !quiet && terminal(w) {
		p.w = w
		p.quitted.Go(p.draw)
	}
	return p
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// expect adds to what there is to do.
func (p *progress) expect(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all += n
}

// begin tells what is done now, and done that some of it is over.
func (p *progress) begin(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.name = name
}

func (p *progress) done(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended += n
}

// stop takes the line away.
func (p *progress) stop() {
	close(p.quit)
	p.quitted.Wait()
	if p.drawn {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}

func (p *progress) draw() {
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-p.quit:
			return
		case now := <-tick.C:
			if took := now.Sub(p.begun); took > patience {
				p.drawn = true
				fmt.Fprintf(p.w, "\r%s\x1b[K", p.line(took))
			}
		}
	}
}

func (p *progress) line(took time.Duration) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	part := 0.0
	if p.all > 0 {
		part = min(1, float64(p.ended)/float64(p.all))
	}
	full := int(part * barWidth)
	line := fmt.Sprintf("[%s%s] %3.0f%%  %s  %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), 100*part, clock(took), p.name)
	if p.ended > 0 {
		left := time.Duration(float64(took) * (1 - part) / part)
		line += ", about " + clock(left) + " left"
	}
	return line
}

func clock(d time.Duration) string {
	s := int(d.Round(time.Second) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
