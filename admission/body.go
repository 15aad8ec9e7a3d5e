package admission

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"os"
	"time"
)

var errTooLong = errors.New("body is longer than max_body")

// firstRead is how much memory a body gets before any of it came.
const firstRead = 64 << 10

// read takes in the whole body. Whatever error it returns, the body was not read
// to its end. Memory grows with what came, not with what the client announces.
func read(r io.Reader, length, limit int64) ([]byte, error) {
	if length > limit {
		return nil, errTooLong
	}
	// One byte more than announced, so that the end is seen without growing.
	body := make([]byte, 0, min(max(length, 511), limit, firstRead)+1)
	for {
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case int64(len(body)) > limit:
			return nil, errTooLong
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
		if len(body) == cap(body) {
			grown := make([]byte, len(body), min(2*int64(cap(body)), limit+1))
			copy(grown, body)
			body = grown
		}
	}
}

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
	body, err := read(r.Body, r.ContentLength, h.maxBody())
	if err != nil {
		return nil, h.unread(r, err)
	}
	// Left in place, it would cancel the request while the answer is under way.
	_ = deadlines.SetReadDeadline(time.Time{})

	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	r.ContentLength = int64(len(body))
	r.TransferEncoding, r.Trailer = nil, nil
	r.Header.Del("Expect") // has been answered
	return body, nil
}

// unread tells the client why its body was not taken.
func (h *Handler) unread(r *http.Request, err error) *refusal {
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, errTooLong), errors.As(err, &tooLong):
		return h.tooLong()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &refusal{
			status: http.StatusRequestTimeout, code: "body_timeout",
			message: "The request body did not arrive within " + h.bodyTimeout().String() + ".",
		}
	case errors.Is(err, io.ErrUnexpectedEOF), r.Context().Err() != nil:
		return &refusal{status: statusClientGone, code: codeClientGone}
	}
	return &refusal{
		status: http.StatusBadRequest, code: "body_unreadable",
		message: "The request body is not framed as its headers say.",
	}
}
