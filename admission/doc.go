// Package admission is the handler in front of the proxy,
// http.handlers.llm_admission. It decides whether a request may reach an engine
// at all, reads its body, has an endpoint granted, and settles the account when
// the request is over, however it ended.
//
// Caddy calls ServeHTTP per request; it calls the next handler, a reverse_proxy
// with the llm policy and transport, which find the Call in the request's
// context.
//
// A request ends here, before the proxy runs, when its path is not served, its
// body is too long, too slow or not acceptable, or no endpoint may take it. Such
// answers are JSON in the shape of OpenAI's errors and carry no address and no
// text of Go's. Every answer given before the body was read to its end closes
// an HTTP/1 connection: Caddy's server would take the unread rest of a chunked
// body for new requests, and they would pass every rule of the site.
//
// # What survives a reload
//
// Nothing here does. A request in flight keeps the handler, the Settings and the
// pool it began with.
package admission
