package admission

import (
	"errors"
	"net/http"
	"time"

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
	// A queue would ask here whether it has room, before the body is asked for.
	if r.Method == http.MethodConnect {
		unread = false // a tunnel has no end
	} else {
		body, f := h.take(x.writer, r)
		if f != nil {
			return f, true
		}
		c.Body, unread = body, false
	}
	if what == passes {
		return nil, unread // Select finds a healthy endpoint
	}
	x.grants = true
	var err error
	c.Features, err = h.features(r, c)
	switch {
	case errors.Is(err, request.ErrTooLong):
		return h.tooLong(), unread
	case err != nil:
		return notAccepted(err), unread
	}
	c.Pool.Calibrate(c)
	if h.Usage == inject {
		askUsage(r, c)
	}
	return nil, unread
}

// features reads the body in its path's dialect, unfolded if it is compressed.
func (h *Handler) features(r *http.Request, c *llmlb.Call) (llmlb.Features, error) {
	body, err := decode(r.Header.Get("Content-Encoding"), c.Body, h.maxBody())
	if err != nil {
		return llmlb.Features{}, err
	}
	o := request.Options{
		Seed: selection.BlockSeed(), AffinityKey: c.Settings.AffinityKey,
		Session: request.SessionOf(r.Header), AllowFields: h.allow,
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

// grant has an endpoint reserved for the Call, which waits for one while all
// that could take it have too much to do.
func (x *exchange) grant() *refusal {
	if !x.grants {
		return nil
	}
	for {
		// A queue would wait here for the Call's turn, and ask again after Full.
		switch selection.Grant(x.call, time.Now()) {
		case selection.Full:
			return atCapacity()
		case selection.None:
			return noEndpoint()
		case selection.Overloaded:
			if w := x.wait(); w != waited {
				return w.refusal(x.call)
			}
			x.call.Readmit()
		default: // granted, or Select's to choose
			return nil
		}
	}
}
