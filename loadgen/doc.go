// Package loadgen is the load generator behind "caddy llm-load": it sends real
// streaming requests to a URL and tells what people would feel.
//
// # How it is built
//
// What to send is planned purely: a [Scenario] and its seed say which request
// goes out when, for whom and with which text (arrivals.go, size.go, plan.go,
// prompt.go). A runner carries the plan out with an http.RoundTripper, as an open
// loop (arrivals that wait for nothing) or a closed one (clients that wait for
// their answers), and hands each ended exchange to a recorder. The recorder keeps
// counts, histograms and a bounded sample, so that its memory does not grow with
// the run; the [Report] made of it is printed as a table, as JSON and as a page.
//
// # What counts
//
// Times are those of a user. In an open loop they start when the request was to
// be sent, whether or not this program was late, and a request that could not be
// sent counts as offered and failed: a server that answers slowly does not thin
// out the load that it is measured by.
//
// # Who calls it
//
// cmd/caddy imports it blank; Caddy runs the command that init registers. It is
// no part of a production build and nothing in it lives through a reload.
package loadgen

import caddycmd "github.com/caddyserver/caddy/v2/cmd"

func init() { caddycmd.RegisterCommand(command) }
