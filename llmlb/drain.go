package llmlb

import (
	"errors"
	"fmt"
	"time"
)

// DrainOrder is an operator's order that an endpoint is to take nothing new.
type DrainOrder struct {
	// Limit is after how long the endpoint should be empty. 0 is no limit. When it
	// is over the endpoint's reason says what is left.
	Limit time.Duration

	// Cut ends what is left when the limit is over: at once without one.
	Cut bool
}

// drain is why an endpoint takes nothing new. The configuration and an order are
// two reasons: an order stands until the endpoint is resumed, whatever is loaded
// meanwhile. Pure; under the pool's lock.
type drain struct {
	configured bool
	ordered    bool
	order      DrainOrder
	at         time.Time // since when, by either
	until      time.Time // when the limit is over, zero for none
	resumed    time.Time
	isOver     bool          // the limit was
	cutAt      time.Time     // when what was open was cut last, zero for never
	cut        chan struct{} // see Endpoint.Cut; nil while nobody has asked
}

func (d *drain) on() bool { return d.configured || d.ordered }

// set notes that one of the two reasons begins or ends.
func (d *drain) set(reason *bool, on bool, now time.Time) {
	was := d.on()
	*reason = on
	if !d.ordered {
		d.order, d.until, d.isOver = DrainOrder{}, time.Time{}, false
	}
	switch is := d.on(); {
	case is && !was:
		d.at = now
	case !is && was:
		d.resumed = now
	}
}

// cuts reports whether what was begun at start has been cut since: how it ended
// says nothing of the endpoint.
func (d *drain) cuts(start time.Time) bool { return !d.cutAt.IsZero() && !start.After(d.cutAt) }

// overdue notes that the limit is over, and cuts if told to.
func (d *drain) overdue(now time.Time) {
	if !d.ordered || d.until.IsZero() || now.Before(d.until) {
		return
	}
	first := !d.isOver
	d.isOver = true
	if !d.order.Cut {
		return
	}
	if first {
		d.cutAt = now
	}
	if d.cut != nil {
		close(d.cut)
		d.cut = nil
	}
}

// reason says how far it has come. A limit may be over some moments before it is
// noted.
func (d *drain) reason(now time.Time, left int) string {
	over := d.isOver || !d.until.IsZero() && !now.Before(d.until)
	switch {
	case over && d.order.Limit == 0:
		return fmt.Sprintf("cut; %d open here", left)
	case over:
		return fmt.Sprintf("limit of %s is over; %d open here", d.order.Limit, left)
	case !d.until.IsZero():
		return fmt.Sprintf("%d open here; limit in %s", left, inWords(d.until.Sub(now)))
	default:
		return fmt.Sprintf("%d open here", left)
	}
}

// ErrDrainConfigured is the error of Resume where the configuration has the
// endpoint drain.
var ErrDrainConfigured = errors.New("the configuration drains it: take 'drain' out of its endpoint block and reload")

// ErrDrainRemoved is the error of Resume where the configuration no longer names the
// endpoint.
var ErrDrainRemoved = errors.New("the configuration no longer names it: add it to the upstreams and reload")

// Drain has the endpoint take nothing new until Resume, over reloads. What it
// does already ends as it would. A second order replaces the first.
func (e *Endpoint) Drain(now time.Time, o DrainOrder) {
	e.change(now, func() {
		d := &e.drain
		d.set(&d.ordered, true, now)
		d.order, d.until, d.isOver = o, time.Time{}, false
		if o.Limit > 0 || o.Cut {
			d.until = now.Add(o.Limit)
		}
		d.overdue(now)
	})
}

// Resume ends an order to drain. It is no error where there was none. Where the
// configuration has the endpoint drain too, or no longer names it, the order ends and
// ErrDrainConfigured or ErrDrainRemoved says that this changes nothing yet. One that
// had drained, and can be asked whether it is ready, has to say so before it gets
// anything.
func (e *Endpoint) Resume(now time.Time) error {
	configured, removed := false, false
	e.change(now, func() {
		from, _, _ := e.State(now)
		configured, removed = e.drain.configured, e.removed()
		e.drain.set(&e.drain.ordered, false, now)
		if from == Drained {
			e.returns(now)
		}
	})
	switch {
	case removed:
		return ErrDrainRemoved
	case configured:
		return ErrDrainConfigured
	}
	return nil
}

// returns has an endpoint that had drained pass a check before it gets anything, if
// it is asked and has passed before. It may have been restarted so lately that the
// last check still speaks of the old process. Under the pool's lock.
func (e *Endpoint) returns(now time.Time) {
	a := &e.alive
	if e.drain.on() || !a.passed || a.failing || a.loading || !e.pool.current().readiness() {
		return
	}
	if a.reason != "" { // its last answer was that it cannot be asked
		return
	}
	a.gone(now)
}

// Cut returns a channel that is closed when an operator has the endpoint's open
// Calls cut. Ask for it again after that.
func (e *Endpoint) Cut() <-chan struct{} {
	e.pool.mu.Lock()
	defer e.pool.mu.Unlock()
	d := &e.drain
	if d.isOver && d.order.Cut {
		return cutAlready // asked by a Call that was placed before the order
	}
	if d.cut == nil {
		d.cut = make(chan struct{})
	}
	return d.cut
}

var cutAlready = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// removed reports whether no configuration names the endpoint any more: it lives on
// until its last stream ends, and then leaves the pool. Under the pool's lock.
func (e *Endpoint) removed() bool { return e.configs == 0 && !e.dynamic && e.leases > 0 }

// Busy reports whether any request is open in the pool.
func (p *Pool) Busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leases > 0
}

// Draining reports whether the endpoint takes nothing new. Under the pool's
// lock.
func (e *Endpoint) Draining() bool { return e.drain.on() }

// DrainStatus is how far a drain has come.
type DrainStatus struct {
	// By is "order" or "configuration".
	By string `json:"by"`

	// Open is how many of this gateway's requests are still open there.
	Open int `json:"open"`

	// Until is when the limit is, or was, over; Overdue says that it is. Cut says
	// that what is left then is cut.
	Until   time.Time `json:"until,omitzero"`
	Overdue bool      `json:"overdue,omitempty"`
	Cut     bool      `json:"cut,omitempty"`
}

func (e *Endpoint) drainStatus() *DrainStatus {
	d := &e.drain
	if !d.on() {
		return nil
	}
	st := &DrainStatus{By: "order", Open: e.leases, Until: d.until, Overdue: d.isOver, Cut: d.order.Cut}
	if d.configured {
		st.By = "configuration"
	}
	return st
}
