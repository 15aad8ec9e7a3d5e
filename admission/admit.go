package admission

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
)

// admit reads the request and tells why it ends here, if it does, and whether
// its body is still on the way then.
func (x *exchange) admit() (f *refusal, unread bool) {
	h, r, c := x.handler, x.request, x.call
	unread = r.ContentLength != 0
	what, methods := of(r, h.Paths)
	switch what {
	case closed:
		return notServed(), unread
	case wrongMethod:
		return &refusal{
			status: http.StatusMethodNotAllowed, code: "method_not_allowed", allow: allowed(methods),
			message: "This path does not take the method " + knownMethod(r.Method) + ".",
		}, unread
	default:
	}
	if c.Settings == nil {
		h.logger.Error("no reverse_proxy has an 'lb_policy llm' for the pool", zap.String("pool", h.handle.Name()))
		return noEndpoint(), unread
	}
	disarm(r)
	x.turns, x.class = turnsOf(c.Pool), h.classify(r)
	x.share = share{of: &x.turns.bodies, limit: h.maxBytes()}
	x.deadline = h.deadline(r, x.class, c.Arrival)
	c.Tenant, c.Class = h.tenantOf(r), x.class.Name
	if what == generates {
		x.grants = true
		if f := x.mayEnter(); f != nil {
			return f, unread
		}
	}
	if r.Method == http.MethodConnect {
		return nil, false // a tunnel has no end
	}
	if f := x.take(); f != nil {
		return f, true
	}
	if what == passes {
		x.answer, f = h.models(r, c, &x.share)
		return f, false // Select finds a healthy endpoint
	}
	return x.read(), false
}

// read finds out what the request is.
func (x *exchange) read() *refusal {
	h, r, c := x.handler, x.request, x.call
	var err error
	c.Features, err = h.features(r, c, &x.share)
	switch {
	case errors.Is(err, request.ErrTooLong):
		return h.tooLong()
	case errors.Is(err, errNoMemory):
		return queueBytes(h.maxBytes())
	case err != nil:
		return notAccepted(err)
	}
	if f := h.rename(r, c, &x.share); f != nil {
		return f
	}
	if f := h.unknownModel(c); f != nil {
		return f
	}
	c.Pool.Calibrate(c)
	if h.Usage == inject {
		askUsage(r, c)
	}
	x.share.set(int64(len(c.Body)))
	return x.spend()
}

// features reads the body in its path's dialect, unfolded if it is compressed:
// then on account of the share, while it is.
func (h *Handler) features(r *http.Request, c *llmlb.Call, s *share) (llmlb.Features, error) {
	defer s.set(s.held)
	body, err := decode(r.Header.Get("Content-Encoding"), c.Body, h.maxBody(), s)
	if err != nil {
		return llmlb.Features{}, err
	}
	o := request.Options{
		Seed: selection.BlockSeed(), AffinityKey: c.Settings.AffinityKey,
		Session: request.SessionOf(r.Header), AllowFields: h.allow, Sample: c.Pool.NeedsSample,
	}
	return request.Read(request.APIOf(r.URL.Path), body, &o)
}

// knownMethod keeps what a client made up out of our answers.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodTrace, http.MethodConnect:
		return method
	}
	return "of the request"
}
