package selection

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

const (
	// DefaultMaxBody is how much of a body the policy reads by itself.
	DefaultMaxBody = 32 << 20

	// headBytes of a body that is not understood decide where it goes.
	headBytes = 4 << 10
)

// read fills in the Call's features from the request, and its body if it could
// be read whole. Otherwise the request goes on without being understood, as
// through any other policy, with what was read put back in front. A body that
// the admission handler would refuse goes on too, since nobody here can answer.
func (p *Policy) read(r *http.Request, c *llmlb.Call) {
	if r.Method != http.MethodPost || r.Body == nil || r.Body == http.NoBody {
		return
	}
	api := request.APIOf(caddyhttp.CleanPath(r.URL.Path, true))
	if api == "" || !isJSON(r.Header) || caddyhttp.IsIncremental(r.Header) {
		c.Features = blank(max(0, r.ContentLength))
		return
	}
	limit := p.maxBody()
	if r.ContentLength > limit {
		limit = headBytes
	}
	body, err := request.ReadBody(r.Body, r.ContentLength, limit)
	if err != nil {
		c.Features = opaque(api, body, max(r.ContentLength, int64(len(body))), c.Settings)
		if errors.Is(err, request.ErrTooLong) {
			err = nil
		}
		r.Body = &unread{head: body, body: r.Body, err: err}
		return
	}
	c.Body = body
	f, err := request.Read(api, body, &request.Options{
		Seed: BlockSeed(), AffinityKey: c.Settings.AffinityKey,
		Session: request.SessionOf(r.Header), AllowFields: steering,
	})
	if err != nil {
		f = opaque(api, body, int64(len(body)), c.Settings)
	}
	c.Features = f
	c.Pool.Calibrate(c)
}

// steering lets through what only the admission handler refuses.
var steering = func() map[string]bool {
	fields := make(map[string]bool)
	for _, f := range request.SteeringFields() {
		fields[f] = true
	}
	return fields
}()

// blank are the features of a request whose body is not looked at.
func blank(length int64) llmlb.Features {
	const most = 1 << 24 // tokens; a length is only what the client says
	return llmlb.Features{Opaque: true, InputTokens: int(min(most, max(1, length/int64(llmlb.DefaultRatio))))}
}

// opaque are the features of a body that was not understood.
func opaque(api string, head []byte, length int64, s *llmlb.Settings) llmlb.Features {
	f := blank(length)
	f.API, f.Encodes = api, request.Encodes(api)
	f.Key = mix(xxhash.Sum64(head[:min(len(head), headBytes)]) ^ s.AffinityKey)
	return f
}

// isJSON reports whether the body is JSON by its type; without one it may be.
func isJSON(h http.Header) bool {
	t := h.Get("Content-Type")
	if t == "" {
		return true
	}
	t, _, err := mime.ParseMediaType(t)
	return err == nil && (t == "application/json" || strings.HasSuffix(t, "+json"))
}

// arm gives the request a fresh reader over its body. Each attempt needs its
// own: the one before may still be reading from the last. GetBody stays nil, so
// that net/http does not repeat a request which a server may have begun to
// work on.
func (s *serving) arm(r *http.Request) {
	body := s.call.Body
	if body == nil {
		return
	}
	r.Body = http.NoBody
	if len(body) > 0 {
		r.Body = s.call.BodyReader()
	}
	if len(r.Trailer) > 0 {
		r.ContentLength = -1 // trailers need chunks
		return
	}
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
}

// guard puts a body that is not held here behind an unread. On a retry it finds
// the one of the attempt before, unless the proxy, which can hold bodies too,
// has put a fresh reader in its place. It reports whether the body is whole.
func (s *serving) guard(r *http.Request) (whole bool) {
	if s.call.Body != nil || r.Body == nil || r.Body == http.NoBody {
		return true
	}
	u, guarded := r.Body.(*unread)
	if !guarded {
		r.Body = &unread{body: r.Body}
		return true
	}
	return !u.begun.Load()
}

// unread is a body that was not read to its end: what was read of it, joined
// with the rest. It can be sent once.
//
// It keeps the transport from closing the client's body, which is the server's
// to close. After a body was closed half read, Caddy's server would take what
// is left of it for the next request on the connection; of one that is merely
// unread it sees too much left over, and ends the connection.
type unread struct {
	head  []byte // what was read and not yet given
	body  io.Reader
	err   error // what ended the reading, if it was an error
	begun atomic.Bool
}

// Read implements io.Reader.
func (u *unread) Read(p []byte) (int, error) {
	u.begun.Store(true)
	if len(u.head) > 0 {
		n := copy(p, u.head)
		u.head = u.head[n:]
		return n, nil
	}
	if u.err != nil {
		return 0, u.err
	}
	return u.body.Read(p)
}

// Close closes nothing.
func (u *unread) Close() error { return nil }
