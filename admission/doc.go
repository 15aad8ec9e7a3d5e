// Package admission is the handler in front of the proxy,
// http.handlers.llm_admission. It decides whether a request may reach an engine
// at all, reads its body, has an endpoint granted, sees to it that the client
// gets one answer, and settles the account when the request is over, however it
// ended.
//
// Caddy calls ServeHTTP per request; it calls the next handler, a reverse_proxy
// with the llm policy and transport, which find the Call in the request's
// context.
//
// A request ends here, before the proxy runs, when its path is not served, its
// body is too long, too slow or not acceptable, or no endpoint may take it. Such
// answers are JSON in the shape of the API's errors and carry no address and no
// text of Go's. Every answer given before the body was read to its end closes
// an HTTP/1 connection: Caddy's server would take the unread rest of a chunked
// body for new requests, and they would pass every rule of the site.
//
// When the proxy comes back without an answer, the Call either waits, because
// all that was left had too much to do and that passes in its time, or nobody could
// be reached, and the proxy is called again (exchange.go, turn.go); or it gets what
// an endpoint has said that refused it (relay.go); or an error of ours. Handlers
// between this one and the proxy then run once more, and find the request as they
// did before.
//
// With a heartbeat the client may have its status before any of this is known
// (heartbeat.go). What comes then that is no event stream becomes an event
// (swallowed.go).
//
// # What survives a reload
//
// What all handlers of a pool share lives as long as the pool: the queue, limits
// and the account of bodies (turns.go). Nothing else does. A request in flight
// keeps the handler, the Settings and the pool it began with.
package admission
