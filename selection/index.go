package selection

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// DefaultIndexBytes bounds the prefix index of a pool unless index_bytes says
// otherwise. It holds 1.5 million blocks, or the prompts of some 380 million
// tokens.
const DefaultIndexBytes = 64 << 20

// minIndexBytes is the smallest useful index: the blocks of a few long prompts.
const minIndexBytes = 64 << 10

// pendingFor is how long the blocks of a Call count as held by its endpoint
// before the first token proves it. It is what makes the second Call of a burst
// go where the first went; a Call that never gets its first token teaches
// nothing for longer than this.
const pendingFor = 30 * time.Second

// holdersMax bounds how many endpoints one lookup tells apart.
const holdersMax = 32

// blockSeed keys all block hashes of this process.
var blockSeed = rand.Uint64()

// BlockSeed returns the seed under which block hashes must be computed to mean
// anything to the prefix index: request.Options.Seed. It is random for each
// process and constant in it, so that the index survives reloads.
func BlockSeed() uint64 { return blockSeed }

// index remembers which endpoints computed which prompt blocks. It has a lock
// of its own, held for the walk over one prompt and never together with the
// pool's: a walk over a prompt of megabytes must not keep others from choosing.
// A choice may thus miss what a Call learns in the same microsecond, which
// costs at most that one hit.
type index struct {
	turns atomic.Uint64 // choices so far: the seed of the tie-breaker

	mu    sync.Mutex
	bytes atomic.Int64 // the budget
	table table        // empty until something is learned
	rooms rooms        // how much each endpoint's cache holds
	epoch time.Time    // zero of the table's clock: the first time it was told
}

// holder is an endpoint that holds the beginning of a prompt: the first blocks
// of it, by what the index knows.
type holder struct {
	cache  uint32
	blocks int32 // believed
	proved int32 // those of them that a first token has proved
	since  uint32
}

// indexKey is where the index hangs in the pool.
const indexKey = "prefix_index"

func newIndex() any {
	ix := new(index)
	ix.bytes.Store(DefaultIndexBytes)
	return ix
}

// indexOf returns the pool's index.
func indexOf(p *llmlb.Pool) *index { return p.Attach(indexKey, newIndex).(*index) }

// resize changes the budget, and keeps of the newest blocks what fits.
func (ix *index) resize(bytes int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.bytes.Swap(bytes) == bytes || ix.table.empty() {
		return
	}
	old := ix.table
	ix.table = newTable(bytes)
	ix.table.refill(&old)
}

// tick is the index's clock, in steps of a tenth of a second. Under the lock.
func (ix *index) tick(now time.Time) uint32 {
	if ix.epoch.IsZero() {
		// Room before the epoch, since deep blocks are stamped a little older.
		ix.epoch = now.Add(-time.Hour)
	}
	return uint32(max(0, now.Sub(ix.epoch)/tickLength)) & tickMask
}

// lookup appends to dst who holds how much of the chain of blocks. The hash of
// a block covers all before it, so the deepest block on which an endpoint is
// known tells how much it holds; engines evict from the tail as well. The walk
// goes from the start and ends at the first block that nobody holds: for a
// prompt that is new to all it reads one line of memory. Searching by halves
// would be wrong, since eviction can leave holes.
func (ix *index) lookup(blocks []uint64, now time.Time, dst []holder) []holder {
	if len(blocks) == 0 {
		return dst
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		return dst
	}
	tick := ix.tick(now)
	for i, h := range blocks {
		e := ix.table.find(h)
		if e == nil {
			break
		}
		held := false
		for _, s := range e.slots {
			if s.cache == 0 || !s.valid(tick) {
				continue
			}
			var h *holder
			if dst, h = ix.holder(dst, s.cache); s.stamp.before(h.since) {
				continue // has been displaced there by what came after
			}
			h.blocks, held = int32(i+1), true
			if s.stamp.proved() {
				h.proved = h.blocks
			}
		}
		if !held {
			break
		}
	}
	return dst
}

// holder returns the cache's place in the list. When there are too many to tell
// apart, the one that holds least is forgotten.
func (ix *index) holder(list []holder, cache uint32) ([]holder, *holder) {
	least := 0
	for i := range list {
		if list[i].cache == cache {
			return list, &list[i]
		}
		if list[i].blocks < list[least].blocks {
			least = i
		}
	}
	h := holder{cache: cache, since: ix.rooms.since(cache)}
	if len(list) < holdersMax {
		list = append(list, h)
		return list, &list[len(list)-1]
	}
	list[least] = h
	return list, &list[least]
}

// ahead is how many blocks' sets are asked of memory at once. One after the
// other, a long prompt's walk would wait for each.
const ahead = 16

// learn notes that the endpoint with the given cache holds the blocks, or will
// within a moment when not proved. Room is how many bytes of prompt its cache
// has room for, or Unknown.
func (ix *index) learn(blocks []uint64, cache uint32, room int64, now time.Time, proved bool) {
	if len(blocks) == 0 {
		return
	}
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		ix.table = newTable(ix.bytes.Load())
	}
	tick := ix.tick(now)
	since, fresh := ix.rooms.since(cache), 0
	for i, h := range blocks {
		if i%ahead == 0 {
			ix.table.touch(blocks[i:min(i+ahead, len(blocks))])
		}
		// Deeper blocks look a little older, so that eviction takes the tail
		// of a prompt before the head without which the tail is useless.
		had := ix.table.insert(h, cache, stampOf(tick-uint32(i/16), proved), since)
		if proved && (!had.proved() || had.before(since)) {
			fresh += llmlb.BlockEnd(i+1) - llmlb.BlockEnd(i) // takes room there from now on
		}
	}
	ix.rooms.fill(cache, room, int64(fresh), tick)
}

// forget removes the blocks from what the cache is believed to hold.
func (ix *index) forget(blocks []uint64, cache uint32) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		return
	}
	for _, h := range blocks {
		ix.table.remove(h, cache)
	}
}

// entries returns how many blocks are held and how many there is room for.
func (ix *index) entries() (held, room int) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	return ix.table.used, len(ix.table.hashes) * ways
}

// random returns the tie-breaker of the next choice. It differs between
// gateways that see the same numbers, since they do not ask at the same
// nanosecond, and is the same in every run of a simulation.
func (ix *index) random(now time.Time) uint64 {
	return mix(ix.turns.Add(1) ^ uint64(now.UnixNano()))
}

// suggest sets the budget of an index that holds nothing yet.
func (ix *index) suggest(bytes int64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		ix.bytes.Store(bytes)
	}
}
