package virtual

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// replica drives one engine in virtual time.
type replica struct {
	line    *timeline
	engine  *engine.Replica
	stepped func()             // the plan of every step's end
	token   func(engine.Event) // told of every token
	events  []engine.Event
	busy    bool
	worked  time.Duration // spent in steps
}

func newReplica(line *timeline, cfg engine.Config, token func(engine.Event)) (*replica, error) {
	e, err := engine.New(cfg)
	if err != nil {
		return nil, err
	}
	r := &replica{line: line, engine: e, token: token}
	r.stepped = r.endStep
	return r, nil
}

// add queues a request, and wakes the engine if it has nothing to do.
func (r *replica) add(req engine.Request) error {
	if err := r.engine.Add(r.line.now, req); err != nil {
		return err
	}
	if !r.busy {
		r.step()
	}
	return nil
}

func (r *replica) step() {
	st, more := r.engine.Begin(r.line.now)
	if r.busy = more; more {
		r.worked += st.Duration
		r.line.after(st.Duration, stepEnds, r.stepped)
	}
}

func (r *replica) endStep() {
	r.events = r.engine.End(r.events[:0])
	for i := range r.events {
		r.token(r.events[i])
	}
	r.step()
}
