package admission

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// signed are request headers that vouch for the body's bytes. Where one is, the
// body stays as it came.
var signed = []string{"Content-Digest", "Repr-Digest", "Digest", "Content-Md5", "Signature"}

// askUsage asks for usage in the client's place, in streams of which the client
// has not asked it: the body is then not the one that came, and the transport
// keeps the chunk this causes from the client.
func askUsage(r *http.Request, c *llmlb.Call) {
	if !c.Stream || c.StreamUsage || c.Opaque || c.API != request.Chat && c.API != request.Completions {
		return
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && !strings.EqualFold(e, "identity") {
		return
	}
	for _, name := range signed {
		if _, ok := r.Header[name]; ok {
			return
		}
	}
	body, ok := request.InjectUsage(c.Body)
	if !ok {
		return // the engine answers for it
	}
	c.StripUsage = true
	c.SetBody(body)
	put(r, c)
	if r.Header["Content-Length"] != nil {
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	}
}
