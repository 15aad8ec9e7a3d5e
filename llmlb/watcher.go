package llmlb

import "sync/atomic"

// Watcher is the app module as the other modules see it. They find it with
// ctx.App("llmlb") and never import it.
type Watcher interface {
	// Watch registers a pool's settings with the configuration being loaded
	// and binds its endpoints. Registering the same pool again with an equal
	// Fingerprint shares it; with another one it is an error that names both
	// places.
	Watch(s *Settings) (*Handle, error)

	// Handle returns the configuration's handle on the named pool. Its
	// Settings are nil until a policy has registered the pool.
	Handle(pool string) *Handle
}

// Handle is one configuration's view of one pool. Modules keep it from
// Provision on and ask it per request.
type Handle struct {
	name     string
	settings atomic.Pointer[Settings]
	pool     atomic.Pointer[Pool]
	shared   atomic.Pointer[string]
}

// NewHandle returns an empty handle for the named pool.
func NewHandle(name string) *Handle { return &Handle{name: name} }

// Name returns the pool's name.
func (h *Handle) Name() string { return h.name }

// Settings returns this configuration's settings, or nil before a policy has
// registered them.
func (h *Handle) Settings() *Settings { return h.settings.Load() }

// Pool returns the pool, or nil before a policy has registered it.
func (h *Handle) Pool() *Pool { return h.pool.Load() }

// Set fills the handle. Only the Watcher calls it.
func (h *Handle) Set(p *Pool, s *Settings) {
	h.pool.Store(p)
	h.settings.Store(s)
}

// Agree notes what a block of the configuration says of what all who use the pool
// share, and reports whether that is what the first of them has said.
func (h *Handle) Agree(said string) bool {
	return h.shared.CompareAndSwap(nil, &said) || *h.shared.Load() == said
}
