// Package status is the live page of the pools, for people: the handler module
// http.handlers.llm_status and its directive llm_status.
//
// # Why it is not in health
//
// Package health is the background path. It runs whether anybody looks or not,
// under every configuration with a pool, so it is kept small; this is a web page
// with its scripts, its streams and its own memory, which only those carry who
// write llm_status. It reads the pools as the admin API does, and of everything
// else it calls nothing but Endpoint.Drain and Endpoint.Resume.
//
// # What it owns
//
// The page (web, embedded; the one library, uPlot, is in web/uplot with its
// licence), the stream of server-sent events that feeds it, the history of the
// last 15 minutes, and the two actions with their protection.
//
// # Who calls it
//
// Caddy, for each request. Nothing in the module imports this package but
// imports.go, and the page is gone where that line is.
//
// # What survives a reload
//
// One watch for the process looks at the pools and keeps the history. Each
// started configuration with an llm_status holds a reference to it, from Caddy's
// event "started" to its event "stopping", so that it runs on over a reload, and
// not at all where nobody could see it or after `caddy validate`. The token of
// the actions lives as long as the process, so a page that is open over a reload
// keeps working. Streams end with the configuration they began under: the browser
// connects again by itself, and gets the history anew.
//
// # Bounds
//
// 64 streams; the history of 2,000 endpoints, 3.5 KB each; 50 endpoints in one
// answer with history; 4 KB for the body of an action. A stream has no queue: it
// is told what has changed since what it was told last, so a slow reader costs
// nothing, and one that takes nothing for ten seconds is dropped.
package status
