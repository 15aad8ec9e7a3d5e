// Package health is the background path: it reads load from the inference
// servers and shows it. It owns the app module "llmlb", the scrape loops, the
// engine dialects, the admin API and the metrics.
//
// # Who calls it
//
// Policies and handlers find [App] with ctx.App("llmlb") as an
// [llmlb.Watcher]; nothing else here is called from outside. It never calls
// the request path: the two meet in the Endpoint.
//
// # Loops
//
// Provision starts nothing. Start makes the collected settings current and
// takes a reference to the pool's runner; Stop hands back to the newest
// configuration still running and gives that reference up. A runner is one
// supervising goroutine, and for each endpoint one for each job that is wanted
// there: the scrape, the readiness check, the canary. So no server ever sees two of
// a kind at once, and what hangs delays neither another job nor another server. The
// list of models is read by the scrape's goroutine, in between.
//
// # Checks
//
// A job asks and judges the answer (readyVerdict, canaryAnswer: pure); what follows
// of a verdict is the Endpoint's to say, in llmlb. The runner looks once a second
// for changes that come with nothing but time.
//
// # Dialects
//
// A page, be it metrics text or JSON, becomes families of samples; a [Dialect]
// is a table that says which of them mean what. An engine is one such table.
//
// # What survives a reload
//
// Runners live in a caddy.UsagePool of their own, keyed by pool name. Each turn
// of a loop reads the pool's current settings, so that a reload changes
// intervals and paths under the running loops and cancels nothing in flight.
// What the loops learnt (the engine found by "auto", reasons already logged)
// lives as long as they do. Metrics are read from the endpoints when they are
// asked for; there is nothing to reset and nothing to carry over.
//
// # What is scraped
//
// The members of the current settings, and with dynamic upstreams every
// endpoint seen. An endpoint that left the configuration and only finishes its
// streams is not: the new configuration's credentials were not meant for it.
package health
