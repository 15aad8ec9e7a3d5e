package loadgen

import (
	"fmt"
	"io"
	"strconv"
	"time"
)

// progress tells how a run goes until done is closed: on a terminal in one line
// that is written over, elsewhere in a line now and then.
func (r *recorder) progress(w io.Writer, terminal bool, done <-chan struct{}) {
	every := 5 * time.Second
	if terminal {
		every = 200 * time.Millisecond
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var before moment
	rate := 0.0 // tokens a second, in the last second or more
	for {
		select {
		case <-done:
			if terminal {
				fmt.Fprint(w, "\r\x1b[K")
			}
			return
		case <-tick.C:
		}
		m := r.now()
		if m.at-before.at >= time.Second {
			rate = max(0, float64(m.token-before.token)/(m.at-before.at).Seconds())
			before = m
		}
		line := r.state(m, rate)
		if terminal {
			fmt.Fprintf(w, "\r%s\x1b[K", line)
		} else {
			fmt.Fprintln(w, line)
		}
	}
}

// state is the line; it fits on a terminal of 80 columns while numbers are small.
func (r *recorder) state(m moment, rate float64) string {
	total := time.Duration(r.s.Duration)
	clock := fmt.Sprintf("%.0fs/%.0fs", min(m.at, total).Seconds(), total.Seconds())
	if m.at > total {
		clock = fmt.Sprintf("+%.0fs", (m.at - total).Seconds())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	first := unknown
	if p50, ok := r.firsts.quantile(0.5); ok {
		p99, _ := r.firsts.quantile(0.99)
		first = ms(millis(p50)) + "/" + ms(millis(p99))
	}
	sent := strconv.Itoa(m.started)
	if r.s.Requests < manyRequests {
		sent += "/" + strconv.Itoa(r.s.Requests)
	}
	return fmt.Sprintf("%s sent %s open %d ok %d failed %d ttft %s %s tok/s",
		clock, sent, m.open, r.total.outcomes[OK], m.failed, first, grouped(rate))
}
