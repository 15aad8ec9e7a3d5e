package admission

import (
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// take reads the request's body within the handler's bounds and puts it in place
// again, so that whoever comes next finds a request with a body of known length.
func (x *exchange) take() *refusal {
	h, r := x.handler, x.request
	if r.ContentLength == 0 || r.Body == nil {
		return nil
	}
	if r.ContentLength > h.maxBody() {
		return h.tooLong() // before the first read, which would ask for the body
	}
	if !x.turns.bodies.room(r.ContentLength, h.maxBytes()) {
		return queueBytes(h.maxBytes())
	}
	// Not every kind of connection has deadlines; then Caddy's own limits hold.
	deadlines := http.NewResponseController(x.writer)
	_ = deadlines.SetReadDeadline(time.Now().Add(h.bodyTimeout()))
	most := h.maxBody()
	if r.ContentLength > 0 {
		most = r.ContentLength
	}
	body, err := request.ReadBody(&counted{from: r.Body, share: &x.share, most: most}, r.ContentLength, h.maxBody())
	if err != nil {
		return h.unread(r, err)
	}
	// Left in place, it would cancel the request while the answer is under way.
	_ = deadlines.SetReadDeadline(time.Time{})

	x.call.LendBody(body, request.FreeBody)
	put(r, x.call)
	r.Header.Del("Expect") // has been answered
	return nil
}

// put gives the request the Call's body, of known length, with a reader of its
// own: what had the one before may still be reading from it.
func put(r *http.Request, c *llmlb.Call) {
	r.Body = http.NoBody
	if len(c.Body) > 0 {
		r.Body = c.BodyReader()
	}
	r.ContentLength = int64(len(c.Body))
	r.TransferEncoding, r.Trailer = nil, nil
}

// unread tells the client why its body was not taken.
func (h *Handler) unread(r *http.Request, err error) *refusal {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, request.ErrTooLong), errors.As(err, &tooLong):
		return h.tooLong()
	case errors.Is(err, errNoMemory):
		return queueBytes(h.maxBytes())
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{
			status: http.StatusRequestTimeout, code: "body_timeout",
			message: "The request body did not arrive within " + h.bodyTimeout().String() + " (body_timeout).",
		}
	case errors.Is(err, io.ErrUnexpectedEOF), r.Context().Err() != nil, r.ProtoMajor == 3:
		// Over HTTP/3 whatever breaks a body off ends its stream, of which the
		// context may learn a moment later.
		return clientGone()
	}
	return &refusal{
		status: http.StatusBadRequest, code: "body_unreadable",
		message: "The request body is not framed as its headers say.",
	}
}
