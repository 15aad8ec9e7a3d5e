package llmlb

import (
	"net/http"
	"slices"
	"time"
)

// Defaults of the settings, as documented in docs/caddyfile.md.
const (
	DefaultPool         = "default"
	DefaultInterval     = time.Second
	DefaultStaleAfter   = 5 * time.Second
	DefaultKVLimit      = 0.95
	DefaultAffinity     = 0.8
	DefaultMinTokens    = 512
	DefaultSpillWaiting = 3
	DefaultSpillTTFT    = 500 * time.Millisecond
	DefaultWeight       = 1.0
)

// Settings is what one configuration says about one pool. Immutable once
// Watcher.Watch has returned: a Call reads the Settings it began with, however
// many reloads come after.
type Settings struct {
	Pool string

	// Members are the static upstreams, in the order of the configuration.
	// Empty with dynamic upstreams.
	Members []Member

	// Dynamic says that upstreams come and go while the configuration stands.
	Dynamic bool

	Strategy string // "work", "prefix_spill", "weighted", or the name of a Caddy policy

	// Scorers are the opinions of "weighted".
	Scorers []WeightedScorer

	// Delegated says that a policy of Caddy's own picks among the usable
	// upstreams. It needs the request, so the choice is made in Select alone.
	Delegated bool

	// Zone is where this gateway stands. Endpoints of other zones are taken when
	// no usable one of this zone is left. Empty when zones are not used.
	Zone string

	// ORCA asks engines for load headers in their answers.
	ORCA bool

	// Retries is how many attempts of a Call may follow the first.
	Retries int

	// Circuit is when failures take an endpoint out.
	Circuit Circuit

	// Affinity (0 to 1) and MinTokens: an endpoint is warm when it holds at
	// least that share of the best match, and at least that many tokens, or
	// that share of a prompt which is shorter.
	Affinity  float64
	MinTokens int

	// SpillWaiting and SpillTTFT are the thresholds at which a warm endpoint is
	// left. 0 is off.
	SpillWaiting float64
	SpillTTFT    time.Duration

	// KVLimit (0 to 1) is the KV-cache usage above which an endpoint gets no
	// new work while another is below.
	KVLimit float64

	// AffinityKey keys rendezvous hashing, the same on all gateways.
	AffinityKey uint64

	Scrape Scrape

	// SLO is what requests are held against.
	SLO SLO

	// Checks is how it is seen that endpoints are ready, and generate.
	Checks Checks

	// Upstream returns the proxy's own transport and URL scheme ("http" or
	// "https"), so that scrapes use the upstream's TLS settings. Call it only
	// from the app's Start on: before, the proxy has not loaded its transport.
	Upstream func() (http.RoundTripper, string)

	// Reach is equal for two settings whose proxies send a request in the same way,
	// to whichever server: with the same transport and the same headers. A Call that
	// began under one of them may then use the servers of the other.
	Reach string

	// Fingerprint is equal for two settings that may share a pool within one
	// configuration; Where tells the operator which block said it.
	Fingerprint string
	Where       string

	byAddress map[string]*Member
	weights   []WeightedScorer
}

// Weights are the names and weights of the scorers, without the scorers
// themselves: what may be kept longer than the configuration.
func (s *Settings) Weights() []WeightedScorer {
	if len(s.weights) != len(s.Scorers) {
		s.weights = slices.Clone(s.Scorers)
		for i := range s.weights {
			s.weights[i].Scorer = nil
		}
	}
	return s.weights
}

// Scrape is how load is read from the engines.
type Scrape struct {
	Engine     string        // dialect, "auto", or "none"
	Metrics    string        // "/path", ":port/path", a URL with {host}, or "" for the dialect's own
	Interval   time.Duration // also bounds one scrape from dial to last byte
	StaleAfter time.Duration
	Bearer     string // token sent with scrapes; never logged
}

// Member is one static upstream of a pool.
type Member struct {
	Address       string
	Name          string // "" means DefaultName
	MaxConcurrent int    // own calls at once; 0 means no limit
	MaxTokens     int    // own tokens in flight, uncached prompt and expected output; 0 means no limit
	Zone          string // "" belongs to every zone
	Drain         bool

	// Weight is how much work it gets for its speed: one of weight 2 counts as
	// twice as fast as it was seen to be. 0 means DefaultWeight.
	Weight float64

	// Available asks Caddy's own health checks and limits, when it is not nil.
	Available func() bool

	// Endpoint is the living state behind the address, set by Pool.Bind.
	Endpoint *Endpoint
}

// Share is how much faster than it was seen to be the member counts: its Weight,
// or DefaultWeight where none is set. A dynamic upstream has no member: nil will
// do.
func (m *Member) Share() float64 {
	if m == nil || m.Weight == 0 {
		return DefaultWeight
	}
	return m.Weight
}

// circuit returns the Circuit, also of a Call without Settings.
func (s *Settings) circuit() Circuit {
	if s == nil {
		return Circuit{}
	}
	return s.Circuit
}

// Member returns the member with the address, or nil.
func (s *Settings) Member(address string) *Member { return s.byAddress[address] }

// MaxConcurrent returns the limit on own calls at the endpoint, 0 for none.
func (s *Settings) MaxConcurrent(e *Endpoint) int {
	if m := s.byAddress[e.address]; m != nil {
		return m.MaxConcurrent
	}
	return 0
}
