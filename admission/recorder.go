package admission

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// recorder notes the status of a response on its way, and says how its request was
// placed.
type recorder struct {
	caddyhttp.ResponseWriterWrapper
	call   *llmlb.Call
	status int // 0 while nothing final was written
}

// WriteHeader notes the status. Informational ones come before the real one.
func (w *recorder) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begins(status)
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.begins(http.StatusOK)
	return w.ResponseWriterWrapper.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (w *recorder) ReadFrom(r io.Reader) (int64, error) {
	w.begins(http.StatusOK)
	return w.ResponseWriterWrapper.ReadFrom(r)
}

func (w *recorder) begins(status int) {
	if w.status == 0 {
		w.status = status
		w.call.Placed.Put(w.Header())
	}
}
