package loadgen

import "time"

// finestStep is how often the state of a run is noted, at first.
const finestStep = 250 * time.Millisecond

// maxMoments is at how many moments; then every other is forgotten, and the
// step doubles.
const maxMoments = 480

// moment is the state of a run, in counts since its begin.
type moment struct {
	at                            time.Duration
	started, ended, failed, token int
	open                          int
}

// timeline is the moments of a run.
type timeline struct {
	step    time.Duration
	moments []moment
}

func (t *timeline) add(m moment) {
	if n := len(t.moments); n > 0 && m.at-t.moments[n-1].at < t.step*9/10 {
		return // between two steps of a line that has become coarser
	}
	if len(t.moments) == maxMoments {
		for i := range maxMoments / 2 {
			t.moments[i] = t.moments[2*i+1]
		}
		t.moments, t.step = t.moments[:maxMoments/2], 2*t.step
	}
	t.moments = append(t.moments, m)
}

// watch notes the state of the run until done is closed.
func (r *recorder) watch(done <-chan struct{}) {
	tick := time.NewTicker(finestStep)
	defer tick.Stop()
	for {
		select {
		case <-done:
			r.note(true)
			return
		case <-tick.C:
			r.note(false)
		}
	}
}

func (r *recorder) note(last bool) {
	m := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.line.moments); last && n > 0 && m.at-r.line.moments[n-1].at < r.line.step/4 {
		r.line.moments = r.line.moments[:n-1] // too little time for a rate
	}
	if last {
		r.line.moments = append(r.line.moments, m)
		return
	}
	r.line.add(m)
}

// now is the state of the run.
func (r *recorder) now() moment {
	r.mu.Lock()
	defer r.mu.Unlock()
	return moment{
		at: time.Since(r.begun), started: r.started, ended: r.total.ended,
		failed: r.total.ended - r.total.outcomes[OK] - r.total.outcomes[Stopped],
		token:  int(r.tokens.Load()), open: int(r.open.Load()),
	}
}
