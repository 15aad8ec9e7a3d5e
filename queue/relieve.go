package queue

import "time"

const (
	// fedWithin is how long nobody may get a place at an endpoint before those who
	// wait for it take any other. What they wait for was to come sooner than a
	// prefix is computed elsewhere; an endpoint that hangs looks as if it would
	// for ever.
	fedWithin = 5 * time.Second

	// relieveEvery is how often that is looked after.
	relieveEvery = time.Second
)

// relieve sends those who wait in vain for an endpoint back to where everybody
// waits. They wait for no other either.
func (q *Queue) relieve(now time.Time) {
	if now.Sub(q.looked) < relieveEvery {
		return
	}
	q.looked = now
	var hungry []*line
	for _, lines := range q.warm {
		for _, l := range lines {
			if l.fed.IsZero() {
				l.fed = now
			} else if now.Sub(l.fed) >= fedWithin {
				hungry = append(hungry, l)
			}
		}
	}
	for _, l := range hungry {
		for l.calls > 0 {
			w := l.parts[0].first()
			w.Call.Impatient = true
			q.move(w, q.coldLine(l.kind.name), 0)
		}
	}
}
