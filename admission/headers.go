package admission

import (
	"net/http"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// stripped are request headers that no client may send on: our own answer's
// names, which a log or an engine might believe; the one that makes an engine
// tell its load in the answer; and those by which engines and their side-cars are
// steered to a rank, a worker or a peer.
var stripped = []string{
	llmlb.HeaderEndpoint, llmlb.HeaderDecision, llmlb.HeaderMatched, llmlb.HeaderAttempts, llmlb.HeaderWait,

	"Endpoint-Load-Metrics-Format",

	"X-Data-Parallel-Rank",
	"X-Data-Parallel-Host-Port",
	"X-Smg-Target-Worker",
	"X-Gateway-Destination-Endpoint",
	"X-Session-Token",
	"X-Prefiller-Host-Port",
	"X-Prefiller-Url",
	"X-Encoder-Hosts-Ports",
}

// keys are request headers in which clients show this gateway who they are. No
// engine we know needs them, and Caddy's own messages about failed requests
// quote the headers that go upstream, all but Authorization and Cookie.
var keys = []string{"X-Api-Key", "Api-Key"}

// disarm removes what would make the engine do something else than what was
// checked.
func disarm(r *http.Request) {
	for _, name := range stripped {
		delete(r.Header, name)
	}
	for _, name := range keys {
		delete(r.Header, name)
	}
	// An upgrade to HTTP/2 in clear text is a tunnel through which any path can
	// be asked for. WebSockets are the only upgrade that means what it says.
	up := r.Header["Upgrade"]
	if len(up) > 0 && (len(up) > 1 || !strings.EqualFold(up[0], "websocket") || r.Method != http.MethodGet) {
		delete(r.Header, "Upgrade")
		delete(r.Header, "Http2-Settings")
	}
}
