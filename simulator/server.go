package simulator

import (
	"context"
	"sync"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// maxLag is how much real time the driver catches up on after the process was
// held up; beyond that the simulated server was simply slow.
const maxLag = 100 * time.Millisecond

// server is one simulated server: an engine, a clock, counters and faults.
type server struct {
	options options
	engine  engine.Config
	started time.Time
	wake    chan struct{} // ends the step in flight early

	mu       sync.Mutex
	replica  *engine.Replica
	lastID   uint64
	calls    map[uint64]*call // sequences in the engine
	driver   chan struct{}    // closed when the driver ends; nil when there is none
	counters counters
	faults   faults
}

// call is one sequence as its HTTP request sees it. The server's lock guards
// all fields but ready, which is signalled after each change.
type call struct {
	id        uint64
	arrived   time.Time
	input     int
	reason    string // why it will end, if nobody aborts it
	ready     chan struct{}
	generated int
	cached    int
	finished  bool
}

func newServer(o options) (*server, error) {
	c := o.config()
	r, err := engine.New(c)
	if err != nil {
		return nil, err
	}
	return &server{
		options: o,
		engine:  c,
		started: time.Now(),
		wake:    make(chan struct{}, 1),
		replica: r,
		calls:   make(map[uint64]*call),
	}, nil
}

// real turns simulated into real time.
func (s *server) real(d time.Duration) time.Duration {
	return time.Duration(float64(d) / s.options.speed)
}

// simulated turns real into simulated time.
func (s *server) simulated(d time.Duration) time.Duration {
	return time.Duration(float64(d) * s.options.speed)
}

// now is the simulated time since the server was made.
func (s *server) now() time.Duration { return s.simulated(time.Since(s.started)) }

// submit hands a sequence to the engine after the time that the API server
// takes for it. It returns the context's error when the client leaves first.
func (s *server) submit(ctx context.Context, c *call, req engine.Request) error {
	c.arrived = time.Now()
	c.ready = make(chan struct{}, 1)
	timer := time.NewTimer(s.real(engine.APIOverhead))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastID++
	c.id = s.lastID
	req.ID = c.id
	if err := s.replica.Add(s.now(), req); err != nil {
		return err
	}
	s.calls[c.id] = c
	if s.driver == nil {
		s.driver = make(chan struct{})
		go s.drive(s.driver)
	}
	return nil
}

// drive runs the engine step by step until it has nothing left to do.
func (s *server) drive(done chan struct{}) {
	defer close(done)
	timer := time.NewTimer(0)
	defer timer.Stop()
	due := s.now()
	var events []engine.Event
	for {
		s.mu.Lock()
		// Steps follow each other without a gap in simulated time, however
		// late a timer fires.
		due = max(due, s.simulated(time.Since(s.started)-maxLag))
		step, ok := s.replica.Begin(due)
		if !ok {
			s.driver = nil
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()

		due += step.Duration
		if wait := s.real(due - s.now()); wait > 0 {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-s.wake:
			}
		}

		s.mu.Lock()
		events = s.replica.End(events[:0])
		for _, e := range events {
			s.deliver(e)
		}
		s.mu.Unlock()
	}
}

// deliver passes a token on to its request. It never waits: a reader that is
// slow finds all tokens at once later. The caller holds the lock.
func (s *server) deliver(e engine.Event) {
	c := s.calls[e.ID]
	c.generated = e.Generated
	c.cached = e.Cached
	c.finished = e.Finished
	if e.First {
		s.counters.firstToken(c.input, c.cached, time.Since(c.arrived))
	}
	if e.Finished {
		delete(s.calls, e.ID)
		s.counters.finished(c.reason)
	}
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

// progress is what a request has been given so far.
type progress struct {
	generated, cached int
	finished          bool
}

// wait returns when there is more than seen tokens, or the client is gone.
func (s *server) wait(ctx context.Context, c *call, seen int) (progress, error) {
	for {
		s.mu.Lock()
		p := progress{c.generated, c.cached, c.finished}
		s.mu.Unlock()
		if p.generated > seen || p.finished {
			return p, nil
		}
		select {
		case <-c.ready:
		case <-ctx.Done():
			return p, ctx.Err()
		}
	}
}

// abandon frees what a call still holds. It does nothing to one that finished.
func (s *server) abandon(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.calls[c.id]; !open {
		return
	}
	delete(s.calls, c.id)
	s.replica.Abort(c.id)
	s.counters.finished(reasonAbort)
}

// Destruct waits for the driver. It runs when neither a handler nor a request
// refers to the server any more, so at most the rest of a step whose sequences
// were all aborted is left, and that is cut short.
func (s *server) Destruct() error {
	s.mu.Lock()
	driver := s.driver
	s.mu.Unlock()
	if driver == nil {
		return nil
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
	<-driver
	// The driver may have ended by itself; a late wake-up is not for the next.
	select {
	case <-s.wake:
	default:
	}
	return nil
}
