package admission

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// take reads the request's body within the handler's bounds and puts it in place
// again, so that whoever comes next finds a request with a body of known length.
func (h *Handler) take(w http.ResponseWriter, r *http.Request) ([]byte, *refusal) {
	if r.ContentLength == 0 || r.Body == nil {
		return nil, nil
	}
	if r.ContentLength > h.maxBody() {
		return nil, h.tooLong() // before the first read, which would ask for the body
	}
	// Not every kind of connection has deadlines; then Caddy's own limits hold.
	deadlines := http.NewResponseController(w)
	_ = deadlines.SetReadDeadline(time.Now().Add(h.bodyTimeout()))
	body, err := request.ReadBody(r.Body, r.ContentLength, h.maxBody())
	if err != nil {
		return nil, h.unread(r, err)
	}
	// Left in place, it would cancel the request while the answer is under way.
	_ = deadlines.SetReadDeadline(time.Time{})

	put(r, body)
	r.Header.Del("Expect") // has been answered
	return body, nil
}

// put gives the request a body of known length, with a reader of its own: what
// had the one before may still be reading from it.
func put(r *http.Request, body []byte) {
	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.ContentLength = int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
}

// unread tells the client why its body was not taken.
func (h *Handler) unread(r *http.Request, err error) *refusal {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, request.ErrTooLong), errors.As(err, &tooLong):
		return h.tooLong()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{
			status: http.StatusRequestTimeout, code: "body_timeout",
			message: "The request body did not arrive within " + h.bodyTimeout().String() + ".",
		}
	case errors.Is(err, io.ErrUnexpectedEOF), r.Context().Err() != nil:
		return clientGone()
	}
	return &refusal{
		status: http.StatusBadRequest, code: "body_unreadable",
		message: "The request body is not framed as its headers say.",
	}
}
