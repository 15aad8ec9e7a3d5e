package admission

import (
	"fmt"
	"net"
	"net/http"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// maxConcurrent is more than one gateway can hold open.
const maxConcurrent = 1_000_000

func (h *Handler) checkClientLimit() error {
	if h.ClientLimit < 0 || h.ClientLimit > maxConcurrent {
		return fmt.Errorf("client_limit: concurrent: %d is out of range; have 1 to %d", h.ClientLimit, maxConcurrent)
	}
	return nil
}

// clientOf returns the address of whoever sent the request, as Caddy sees it: the
// one that a trusted proxy names, or else the connection's.
func clientOf(r *http.Request) string {
	if address, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok && address != "" {
		return address
	}
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return address
}
