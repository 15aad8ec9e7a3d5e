package admission

import (
	"io"
	"net/http"
	"time"
)

// Bounds of lingering.
const (
	lingerBytes = 64 << 20
	lingerTime  = 2 * time.Second
)

// linger takes what a client is still sending after it was answered, for a
// while, and throws it away. The connection is closed afterwards. Closing it at
// once would reset it, and a reset makes most clients lose the very answer that
// tells them why.
func linger(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.Body == nil {
		return // other protocols end the stream alone
	}
	control := http.NewResponseController(w)
	if r.Header.Get("Expect") != "" {
		// The client most likely sends nothing. The server would wait for it.
		_ = control.SetReadDeadline(time.Now().Add(lingerTime))
		return
	}
	if control.Flush() != nil || control.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.CopyN(io.Discard, r.Body, lingerBytes)
}
