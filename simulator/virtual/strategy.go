package virtual

import (
	"math/rand/v2"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// Strategy is a rule by which a gateway picks a server for each request at the
// moment it arrives.
type Strategy interface {
	// Pick returns the number of a server. The view is valid until it returns.
	Pick(v *View) int
}

// Follower is a Strategy that wants to know what becomes of requests.
type Follower interface {
	// Placed follows each Pick. FirstToken and Ended come once for each request,
	// FirstToken also for one that ends without any.
	Placed(now time.Duration, r *Ask, server int)
	FirstToken(now time.Duration, r *Ask, server int)
	Ended(now time.Duration, r *Ask, server int)
}

// Sized is a Strategy that remembers no more than so many tokens of prompts for
// each server, and of each prompt no more than its first so many. 0 is what the
// server's KV memory holds, and all of it.
type Sized interface {
	Remembers() (perServer, perPrompt int)
}

// Ask is a request as a Strategy sees it.
type Ask struct {
	ID     uint64
	Input  int      // prompt tokens
	Output int      // tokens it will generate: what no gateway knows; for oracles
	Pieces []uint64 // chained ids of the prompt's full pieces, of Block tokens each
	Block  int

	// Key tells conversations apart: it says what the prompt's first two pieces
	// say. Prompts of which nothing is known have one each.
	Key uint64

	Match int // tokens of it believed to be cached where it was sent
}

// View is what a gateway knows when it picks.
type View struct {
	Now     time.Duration
	Ask     *Ask
	Servers []Server
	Rand    *rand.Rand

	// Gateways is how many there are.
	Gateways int

	// Oracle says that everything here is true at this moment. Otherwise only what
	// the gateway did itself is.
	Oracle bool
}

// Server is what a gateway knows of one server.
type Server struct {
	// Profile is how fast the gateway's operator believes the server to be. All
	// servers have that of the first, unless an oracle asks.
	Profile engine.Config

	// Open requests have been sent there and not ended; Prefilling are those of
	// them without a first token. An oracle counts everybody's.
	Open, Prefilling int

	// Pending is the prompt tokens of those without a first token that are not
	// believed to be cached. An oracle knows what has been computed of them
	// already.
	Pending int

	// Context is the tokens that those with a first token hold in KV memory, so far.
	Context int

	// Match is how many tokens of the request's prompt are believed to be cached.
	Match int

	// Waiting, Running and KVUsage (0 to 1) are what the last scrape said, at
	// Scraped; below zero before the first.
	Waiting, Running int
	KVUsage          float64
	Scraped          time.Duration
}

// Decoding is how many of the open requests have a first token.
func (s *Server) Decoding() int { return s.Open - s.Prefilling }
