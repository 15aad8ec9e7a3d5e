package request

import "net/http"

// sessionHeaders are those in which clients name the conversation or session a
// request belongs to, the most explicit first: generic ones, then those of coding
// agents and other gateways.
var sessionHeaders = []string{
	"X-Session-Id",
	"X-Session-Affinity",
	"X-Claude-Code-Session-Id",
	"X-Opencode-Session",
	"X-Qwen-Code-Session-Id",
	"X-Grok-Conv-Id",
	"X-Litellm-Session-Id",
	"X-Bf-Session-Id",
	"X-Merge-Thread-Id",
	"X-Olla-Session-Id",
	"X-Smg-Routing-Key",
	"Session-Id",
	"Session_id",
	"Thread-Id",
}

// maxSession bounds how much of a session's name counts.
const maxSession = 256

// SessionOf returns the session that a request's headers name, or "". It decides
// where a cold conversation goes and nothing else: a client that lies about it
// does harm to its own cache hits alone.
func SessionOf(h http.Header) string {
	for _, name := range sessionHeaders {
		if v := h[name]; len(v) > 0 && v[0] != "" {
			return v[0][:min(len(v[0]), maxSession)]
		}
	}
	return ""
}
