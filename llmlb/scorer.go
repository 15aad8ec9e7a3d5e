package llmlb

// Scorer rates endpoints for a Call: one opinion of several that the strategy
// "weighted" adds up. Modules in the namespace llmlb.scorers implement it; their
// names are what the Caddyfile option "scorer" takes.
//
// Score returns 0 (worst) to 1 (best). What lies outside is clamped and NaN
// counts as 0, so that no scorer can outvote the others beyond its weight. It is
// called for every usable endpoint of every choice, under the pool's lock: it
// must neither wait, nor allocate, nor keep the View. A scorer that has nothing
// to say of an endpoint should return what an ordinary one would get, never the
// best: unknown is not idle.
type Scorer interface {
	Score(c *Call, v *View) float64
}

// WeightedScorer is one scorer of a pool and the weight of its opinion.
type WeightedScorer struct {
	Name   string
	Weight float64
	Scorer Scorer
}

// View is an endpoint as a choice sees it. Numbers that are not known are
// Unknown.
type View struct {
	Endpoint *Endpoint
	Member   *Member // nil for dynamic upstreams

	Waiting       float64 // requests in its queue
	Running       float64 // sequences in its batch
	PrefillTokens float64 // prompt tokens that stand before this Call
	OutputTokens  int     // our own expected output tokens there
	KVUsage       float64 // 0 to 1
	KVCapacity    float64 // tokens
	Own           int     // our own open calls
	Blind         bool    // no numbers, or too old ones

	Matched int // prompt tokens of the Call believed to be in its KV cache
	Best    int // the longest match on any endpoint

	Predicted  float64 // time to first token in seconds, by prediction
	RecentTTFT float64 // last known one, in seconds
	ErrorRate  float64 // share of recent attempts that failed, 0 to 1

	// Home says that the Call's conversation key falls on this endpoint, as it
	// does on every gateway with the same affinity_key.
	Home bool
}

// MaxScorers is how many scorers a pool may have.
const MaxScorers = 8
