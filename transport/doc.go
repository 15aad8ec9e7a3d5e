// Package transport is one attempt: a request sent to one endpoint, and its
// answer watched until the last byte. It is the module
// http.reverse_proxy.transport.llm, Caddy's own HTTP transport with everything
// that knows about inference around it.
//
// reverse_proxy calls RoundTrip once per attempt, after the selection policy
// has chosen. The request's Call, found in its context, says which endpoint was
// reserved and what is being asked. Requests without a Call pass untouched.
//
// # What it does
//
// It tells the endpoint whether it could be reached, counts how the attempt
// ended, and gives the Lease back when the answer's last byte was read. It reads
// the answer along as it is copied, for the first token, usage and the finish
// marker; that never changes, delays or reorders a byte and keeps a fixed few
// hundred bytes per stream. It sends a request again, once and to the same
// endpoint, when the kept-alive connection it went out on turns out to have
// been closed before (see stale.go). With orca on it asks the engine for its load
// in the answer's head, and keeps that from the client (see orca.go).
//
// # What survives a reload
//
// Nothing here does. An open stream keeps the transport it began with; the
// connections of an old configuration are closed when idle.
package transport
