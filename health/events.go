package health

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// stateEvent is the name of the event for a change of an endpoint's state.
const stateEvent = "llmlb.state"

const (
	// maxEvents is how many events may wait for handlers of one configuration.
	// Those are called one after the other, and may be slow; what is too much is
	// dropped and counted.
	maxEvents = 256

	// handlerEnd is how long a configuration that ends waits for a handler, whose
	// context has been cancelled.
	handlerEnd = time.Second
)

// eventsDropped counts events that nobody was told of, since Caddy's start.
var eventsDropped atomic.Uint64

// voice tells handlers of one configuration's events app. It has a goroutine of its
// own from Start to Stop: a handler may take its time, and nobody who changes a
// state has any.
type voice struct {
	events *caddyevents.App
	ctx    caddy.Context // ends with stop
	cancel context.CancelFunc
	logger *zap.Logger

	pools   map[*llmlb.Pool]bool // that the configuration has, from start on
	begun   chan struct{}        // closed when the configuration runs
	once    sync.Once
	waiting chan caddyEvent
	done    chan struct{}
}

type caddyEvent map[string]any

// voices are those of the started configurations, newest last.
var voices struct {
	sync.Mutex
	list []*voice
}

// newVoice returns the configuration's voice, or nil if nobody could hear it.
func newVoice(ctx caddy.Context, logger *zap.Logger) (*voice, error) {
	// The http app has brought it up where there is one.
	got, err := ctx.AppIfConfigured("events")
	switch {
	case errors.Is(err, caddy.ErrNotConfigured):
		return nil, nil // no app, no handlers
	case err != nil:
		return nil, err
	}
	v := &voice{
		events: got.(*caddyevents.App), logger: logger, pools: make(map[*llmlb.Pool]bool),
		begun: make(chan struct{}), waiting: make(chan caddyEvent, maxEvents), done: make(chan struct{}),
	}
	inner, cancel := context.WithCancel(ctx.Context)
	v.ctx, v.cancel = ctx, cancel
	v.ctx.Context = inner
	// Apps start in any order, and handlers are bound when the events app does: it
	// must not be asked before. Caddy says with an event that all have.
	return v, v.events.On("started", v)
}

// Handle implements caddyevents.Handler: the configuration runs.
func (v *voice) Handle(context.Context, caddy.Event) error {
	v.once.Do(func() { close(v.begun) })
	return nil
}

func (v *voice) start(list []*watched) {
	if v == nil {
		return
	}
	for _, w := range list {
		v.pools[w.pool] = true
	}
	voices.Lock()
	voices.list = append(voices.list, v)
	voices.Unlock()
	go v.speak()
}

// stop ends the voice. What still waits for a handler is dropped, unless the
// handlers are quick.
func (v *voice) stop() {
	if v == nil {
		return
	}
	voices.Lock()
	voices.list = slices.DeleteFunc(voices.list, func(other *voice) bool { return other == v })
	close(v.waiting) // nobody finds it any more
	voices.Unlock()
	select {
	case <-v.begun:
		v.ends()
	default: // loading the configuration has failed
	}
	if v.cancel(); !v.ends() {
		v.logger.Warn("an event handler does not end", zap.String("event", stateEvent))
		v.drop()
	}
}

// ends reports whether nothing is left to be told, and waits for that a moment.
func (v *voice) ends() bool {
	timer := time.NewTimer(handlerEnd)
	defer timer.Stop()
	select {
	case <-v.done:
		return true
	case <-timer.C:
		return false
	}
}

// speak emits events until the voice is stopped.
func (v *voice) speak() {
	defer close(v.done)
	select {
	case <-v.begun:
	case <-v.ctx.Done():
	}
	for data := range v.waiting {
		if v.ctx.Err() != nil {
			eventsDropped.Add(1)
			break
		}
		v.emit(data)
	}
	v.drop()
}

// drop counts what nobody will be told of any more.
func (v *voice) drop() {
	for range v.waiting {
		eventsDropped.Add(1)
	}
}

// emit calls the handlers. One that panics must not take the gateway with it.
func (v *voice) emit(data caddyEvent) {
	defer func() {
		if r := recover(); r != nil {
			v.logger.Error("an event handler has panicked", zap.String("event", stateEvent), zap.Any("panic", r), zap.StackSkip("stack", 1))
		}
	}()
	v.events.Emit(v.ctx, stateEvent, data)
}

// emitState tells the handlers of the newest configuration that has the endpoint's
// pool of a change. It never waits, and asks for no lock that anybody holds for long.
func emitState(c llmlb.Change) {
	voices.Lock()
	defer voices.Unlock()
	for _, v := range slices.Backward(voices.list) {
		if !v.pools[c.Endpoint.Pool()] {
			continue
		}
		select {
		case v.waiting <- stateData(c):
		default:
			eventsDropped.Add(1)
		}
		return
	}
}

// stateData is what handlers are told. All of it is text, so that placeholders
// such as {event.data.to} can be used as they are.
func stateData(c llmlb.Change) caddyEvent {
	e := c.Endpoint
	return caddyEvent{
		"pool": e.Pool().Name(), "endpoint": e.Name(), "address": e.Address(),
		"from": c.From.String(), "to": c.To.String(), "reason": c.Reason,
		"at": c.At.UTC().Format(time.RFC3339Nano),
	}
}

// Interface guard
var _ caddyevents.Handler = (*voice)(nil)
