package admission

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// rename puts the model's own name into a Call that asks for an alias: into its
// body, and by reading that again into its features, so that the alias and the
// model are one in all that is told apart by models: caches, lists, what is
// learned. Other Calls stay as they are. Names are compared byte by byte.
//
// Forms (multipart/form-data) are not changed, so aliases mean nothing there.
func (h *Handler) rename(r *http.Request, c *llmlb.Call, s *share) *refusal {
	name, alias := h.Models[c.Model]
	if !alias || multipart(r) {
		return nil
	}
	plain, err := decode(r.Header.Get("Content-Encoding"), c.Body, h.maxBody(), s)
	if err != nil {
		return h.unreadable(err)
	}
	if f := renameBody(r, c, plain, name); f != nil {
		return f
	}
	if c.Features, err = h.features(r, c, s); err != nil {
		return h.unreadable(err)
	}
	return nil
}

// unreadable is for a body that is here and that we cannot, or will not, read.
func (h *Handler) unreadable(err error) *refusal {
	switch {
	case errors.Is(err, request.ErrTooLong):
		return h.tooLong()
	case errors.Is(err, errNoMemory):
		return queueBytes(h.maxBytes())
	}
	return notAccepted(err)
}

// renameBody gives the request a body that differs in the model alone. One that
// came compressed goes on as it reads unpacked: packed again it would be another
// one in any case.
func renameBody(r *http.Request, c *llmlb.Call, plain []byte, name string) *refusal {
	for _, by := range signed {
		if _, ok := r.Header[by]; ok {
			return &refusal{
				status: http.StatusBadRequest, code: "body_not_accepted", param: "model",
				message: "Not accepted: " + strconv.Quote(shortened(c.Model)) + " stands for " + strconv.Quote(shortened(name)) +
					" here, which would have to be put in its place, but the header " + by + " vouches for the body as it is. Ask for " + strconv.Quote(shortened(name)) + ".",
			}
		}
	}
	body, ok := request.Rename(plain, name)
	if !ok {
		return &refusal{
			status: http.StatusBadRequest, code: "body_not_accepted", param: "model",
			message: "Not accepted: the request body does not name its model in a way that every inference server reads alike.",
		}
	}
	c.SetBody(body)
	put(r, c)
	r.Header.Del("Content-Encoding")
	if r.Header["Content-Length"] != nil {
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
	return nil
}

// multipart reports whether the body is a form with files, as for audio.
func multipart(r *http.Request) bool {
	const prefix = "multipart/"
	t := strings.TrimSpace(r.Header.Get("Content-Type"))
	return len(t) >= len(prefix) && strings.EqualFold(t[:len(prefix)], prefix)
}
