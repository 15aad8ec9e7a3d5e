package admission

import (
	"io"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// recorder notes the status of a response on its way, and nothing else.
type recorder struct {
	*caddyhttp.ResponseWriterWrapper
	status int // 0 while nothing final was written
}

// WriteHeader notes the status. Informational ones come before the real one.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 && (status >= http.StatusOK || status == http.StatusSwitchingProtocols) {
		w.status = status
	}
	w.ResponseWriterWrapper.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *recorder) Write(p []byte) (int, error) {
	w.wrote()
	return w.ResponseWriterWrapper.Write(p)
}

// ReadFrom implements io.ReaderFrom.
func (w *recorder) ReadFrom(r io.Reader) (int64, error) {
	w.wrote()
	return w.ResponseWriterWrapper.ReadFrom(r)
}

func (w *recorder) wrote() {
	if w.status == 0 {
		w.status = http.StatusOK
	}
}
