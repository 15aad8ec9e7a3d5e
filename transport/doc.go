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
// It holds an answer until it has shown a first token (gate.go), and has the
// proxy try another endpoint when it does not (failover.go); after that token
// nothing is tried again. A watchdog gives up what nothing is to be hoped of, and
// what an operator who drains the endpoint wants ended (attempt.go). It reads the
// answer along as it is copied (package answer), for tokens, usage and the finish
// marker; that never changes, delays or reorders a byte, and a stream without its
// finish marker is not given a clean end (body.go). It tells the endpoint how the attempt ended and gives the Lease
// back. It sends a request again, once and to the same endpoint, when the
// kept-alive connection it went out on turns out to have been closed before
// (stale.go). With orca on it asks the engine for its load in the answer's head,
// and keeps that from the client (orca.go).
//
// # What survives a reload
//
// Nothing here does. An open stream keeps the transport it began with; the
// connections of an old configuration are closed when idle.
package transport
