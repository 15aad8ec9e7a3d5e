package admission

import (
	"errors"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// exchange is one request and what becomes of it.
type exchange struct {
	handler *Handler
	call    *llmlb.Call
	writer  http.ResponseWriter // the client's, or the heartbeat in front of it
	request *http.Request
	next    caddyhttp.Handler

	turns    *turns
	class    *queue.Class
	deadline time.Time     // zero for none
	waiter   *queue.Waiter // nil before it asked for a turn
	share    share         // of the memory for bodies
	ticket   *queue.Ticket // of the limits

	grants  bool // endpoints are reserved for the Call
	rec     *recorder
	beat    *heartbeat // nil without
	found   found
	answer  []byte        // what we have to say ourselves: lists of models
	pause   time.Duration // the last lull
	knocked bool          // nobody could be reached once
	unfit   bool          // refused for a mistake of its own
	settled bool
}

// ServeHTTP admits one request, or answers it.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
	now := time.Now()
	settings, pool := h.handle.Settings(), h.handle.Pool()
	if before := llmlb.CallOf(r.Context()); before != nil && before.Pool == pool {
		return next.ServeHTTP(w, r) // admitted further up the same route
	}
	x := &exchange{handler: h, call: llmlb.NewCall(pool, settings, now), writer: w, request: r, next: next}
	x.record()
	x.publish()
	f, unread := x.admit()
	if f != nil {
		x.refused(f)
		x.release()
		x.log(true)
		x.trace()
		return h.refuse(w, r, f, unread)
	}
	if x.answer != nil {
		writeModels(x.rec, r, x.answer)
		x.call.Outcome = llmlb.Served
		x.release()
		x.log(true)
		x.trace()
		return nil
	}
	x.begin()
	// However the proxy ends, also by a panic when the client or the upstream
	// breaks off, every reservation goes back. The panic goes on.
	returned := false
	defer func() { x.end(returned) }()
	err := x.serve()
	returned = true
	return err
}

func (x *exchange) record() {
	x.rec = &recorder{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: x.writer}, call: x.call}
}

// begin makes everything ready for the proxy.
func (x *exchange) begin() {
	r, h, c := x.request, x.handler, x.call
	c.Answering = true
	c.Released = func() { x.share.set(0) }
	c.Ended = func() {
		if x.ticket != nil {
			x.turns.limits.Leave(time.Now(), x.ticket)
		}
	}
	*r = *r.WithContext(llmlb.WithCall(r.Context(), c))
	if x.grants && h.beats(c) {
		x.beat = startHeartbeat(x.writer, r, c.API, time.Duration(h.Heartbeat))
		x.writer = x.beat
		x.record()
	}
	x.found.note(x)
}

// serve waits for the Call's turn and calls the proxy, and again when nothing has
// come of that and the Call may wait for another.
func (x *exchange) serve() error {
	for {
		if f := x.turn(); f != nil {
			return x.giveUp(f, nil)
		}
		err := x.next.ServeHTTP(x.rec, x.request)
		status := statusOf(err)
		switch {
		case x.rec.status == 0 && x.gone():
			return x.giveUp(clientGone(), err)
		case err == nil, x.rec.status != 0, status < http.StatusInternalServerError:
			x.settle(true, err)
			return x.passOn(err)
		}
		if !x.again() {
			return x.giveUp(x.failure(status), err)
		}
		x.lull()
		if x.gone() {
			return x.giveUp(clientGone(), err)
		}
		x.readmit()
	}
}

// statusOf is the status that an error which came back from the proxy asks for.
func statusOf(err error) int {
	if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok {
		return he.StatusCode
	}
	return http.StatusInternalServerError
}

// failure is what a client learns of attempts that all failed without an answer,
// or that could not be made. The proxy tells of the last error alone.
func (x *exchange) failure(status int) *refusal {
	c := x.call
	switch {
	case c.Attempts > 0 && c.Outcome == llmlb.FirstTokenTimeout:
		return failed(http.StatusGatewayTimeout)
	case c.Outcome == llmlb.Overloaded, !c.RetryAt.IsZero() && c.Outcome != llmlb.EngineError:
		return overloaded(time.Until(c.RetryAt))
	}
	return failed(status)
}

// giveUp answers a Call that the proxy has no answer for, with what a server has
// said if one has said something, else with f. err is the proxy's, if it was
// asked.
func (x *exchange) giveUp(f *refusal, err error) error {
	h, kept := x.handler, x.call.Kept
	x.found.clean(x)
	x.call.Placed = llmlb.Placed{} // what is said now is no server's answer, or has its own
	if x.gone() {
		f = clientGone()
	}
	if kept != nil && f.status != statusClientGone {
		x.settle(true, err)
		return x.relay(kept)
	}
	x.refused(f)
	x.settle(true, err)
	committed := x.beat.take() // and then nobody but us can tell the client
	if h.Errors == pass && !committed && err != nil && f.status == statusOf(err) {
		return err
	}
	if err != nil && f.status >= http.StatusInternalServerError {
		h.logFailure(x.call, f, err)
	}
	if committed {
		return x.say(f)
	}
	return h.refuse(x.rec, x.request, f, false)
}

// say answers with f, which becomes an event where the client has a status.
func (x *exchange) say(f *refusal) error {
	if !x.beat.take() {
		f.write(x.rec, x.request)
		return nil
	}
	x.rec.WriteHeader(f.status)
	x.beat.swallowed.own = f
	return nil
}

// passOn ends with the error that the proxy returned. The client may have a
// status from the heartbeat, and then nobody else can tell it anything.
func (x *exchange) passOn(err error) error {
	if err == nil || !x.beat.take() {
		return err
	}
	if x.rec.status != 0 {
		return nil
	}
	return x.say(failed(statusOf(err)))
}

// end settles what is still open and gives the client's ResponseWriter back.
func (x *exchange) end(returned bool) {
	func() {
		defer x.release() // also when who is told of the end breaks: others wait for what this holds
		x.settle(returned, nil)
	}()
	if x.beat != nil {
		x.beat.end(returned)
	}
	x.log(returned)
	x.trace()
}
