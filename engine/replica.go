package engine

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// ErrNeverFits is returned by Add for a sequence that is longer than the whole
// KV memory.
var ErrNeverFits = errors.New("sequence is longer than the kv memory")

// Replica is one engine with its queue, its batch and its KV memory.
type Replica struct {
	config   Config
	rates    rates
	pool     blockPool
	byID     map[uint64]*sequence
	waiting  queue
	running  []*sequence // in order of admission
	step     []slot      // what the step in flight computes
	stepping bool
	spare    []*sequence
	counters counters
}

// counters only grow.
type counters struct {
	queries, hits                int64
	allHits, fetched             int64
	prefilled, decoded           int64
	generated, lost, preemptions int64
	steps                        int64
}

// New returns an idle replica with empty memory.
func New(c Config) (*Replica, error) {
	r, err := c.Costs.rates()
	if err != nil {
		return nil, err
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	hint := min(c.MaxSeqs, 1024)
	return &Replica{
		config:  c,
		rates:   r,
		pool:    newBlockPool(c.KVTokens / c.BlockSize),
		byID:    make(map[uint64]*sequence, hint),
		running: make([]*sequence, 0, hint),
		step:    make([]slot, 0, hint),
	}, nil
}

// Config returns what the replica was made from.
func (r *Replica) Config() Config { return r.config }

// Add puts a request at the end of the queue. It refuses what can never fit
// (ErrNeverFits), counts below 1, and an ID that is still in use.
func (r *Replica) Add(now time.Duration, req Request) error {
	if req.Input < 1 || req.Output < 1 {
		return fmt.Errorf("adding sequence %d: %d input and %d output tokens; each must be at least 1", req.ID, req.Input, req.Output)
	}
	if !r.config.Fits(req.Input, req.Output) {
		return fmt.Errorf("adding sequence %d: %w", req.ID, ErrNeverFits)
	}
	if _, ok := r.byID[req.ID]; ok {
		return fmt.Errorf("adding sequence %d: id is in use", req.ID)
	}
	s := r.newSequence()
	s.Request = req
	s.arrived = now
	r.byID[req.ID] = s
	r.waiting.pushBack(s)
	return nil
}

// Abort drops a sequence, waiting or running, and frees its memory at once. It
// reports whether there was one. A step in flight still takes its full time.
func (r *Replica) Abort(id uint64) bool {
	s, ok := r.byID[id]
	if !ok {
		return false
	}
	delete(r.byID, id)
	if s.phase == waiting {
		r.waiting.remove(s)
	} else {
		i := slices.Index(r.running, s)
		r.running = slices.Delete(r.running, i, i+1)
		r.counters.lost += int64(s.computed)
		r.release(s)
	}
	if s.inStep {
		s.phase = gone // End still meets it in the step
		return true
	}
	r.recycle(s)
	return true
}

func (r *Replica) newSequence() *sequence {
	if n := len(r.spare); n > 0 {
		s := r.spare[n-1]
		r.spare = r.spare[:n-1]
		return s
	}
	return new(sequence)
}

// recycle keeps the sequence and its list of blocks for a later request.
func (r *Replica) recycle(s *sequence) {
	*s = sequence{blocks: s.blocks[:0]}
	r.spare = append(r.spare, s)
}

// Stats is the state of a replica at one moment. Between steps ReusedTokens +
// PrefillTokens + DecodeTokens is what finished and running sequences have had
// computed, plus LostTokens.
type Stats struct {
	// Running and Waiting count sequences.
	Running, Waiting int
	// TotalBlocks = FreeBlocks + IdleBlocks + ReferencedBlocks. Idle blocks
	// hold cached prefixes that nobody uses at the moment.
	TotalBlocks, FreeBlocks, IdleBlocks, ReferencedBlocks int
	// CachedTokens is the number of tokens that a prompt could find, in use or
	// idle.
	CachedTokens int
	// QueryTokens and HitTokens count prompt tokens looked up in the prefix
	// cache and found there, once per request.
	QueryTokens, HitTokens int64
	// ReusedTokens counts tokens found in the cache by every admission, also
	// when a preempted sequence came back.
	ReusedTokens int64
	// FetchedTokens counts those of them that only the shared store had.
	FetchedTokens int64
	// PrefillTokens and DecodeTokens count tokens computed: prompts and what
	// preemption made recompute, and one per further generated token.
	PrefillTokens, DecodeTokens int64
	// GeneratedTokens counts tokens given out.
	GeneratedTokens int64
	// LostTokens counts tokens that were in memory for a sequence when it was
	// preempted or aborted.
	LostTokens int64
	// Preemptions and Evictions count sequences and blocks that had to make
	// room; Steps counts steps begun.
	Preemptions, Evictions, Steps int64
}

// KVUsage is the share of the memory that sequences hold, from 0 to 1.
func (s Stats) KVUsage() float64 {
	return float64(s.ReferencedBlocks) / float64(s.TotalBlocks)
}

// Stats returns the present state in constant time.
func (r *Replica) Stats() Stats {
	c := &r.counters
	return Stats{
		Running:          len(r.running),
		Waiting:          r.waiting.length,
		TotalBlocks:      len(r.pool.blocks),
		FreeBlocks:       len(r.pool.free),
		IdleBlocks:       r.pool.idle,
		ReferencedBlocks: r.pool.referenced(),
		CachedTokens:     r.pool.index.length * r.config.BlockSize,
		QueryTokens:      c.queries,
		HitTokens:        c.hits,
		ReusedTokens:     c.allHits,
		FetchedTokens:    c.fetched,
		PrefillTokens:    c.prefilled,
		DecodeTokens:     c.decoded,
		GeneratedTokens:  c.generated,
		LostTokens:       c.lost,
		Preemptions:      c.preemptions,
		Evictions:        r.pool.evictions,
		Steps:            c.steps,
	}
}
