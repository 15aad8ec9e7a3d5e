package selection

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// DefaultIndexBytes bounds the prefix index of a pool unless index_bytes says
// otherwise. It holds 1.5 million blocks, or the prompts of some 380 million
// tokens, and more where they are longer than 32 KiB; a block that more than four
// endpoints hold counts for one more with every four.
const DefaultIndexBytes = 64 << 20

// minIndexBytes is the smallest useful index: the blocks of a few long prompts.
const minIndexBytes = 64 << 10

// pendingFor is how long the blocks of a Call count as held by its endpoint
// before the first token proves it. It is what makes the second Call of a burst
// go where the first went; a Call that never gets its first token teaches
// nothing for longer than this.
const pendingFor = 30 * time.Second

// blockSeed keys all block hashes of this process.
var blockSeed = rand.Uint64()

// BlockSeed returns the seed under which block hashes must be computed to mean
// anything to the prefix index: request.Options.Seed. It is random for each
// process and constant in it, so that the index survives reloads.
func BlockSeed() uint64 { return blockSeed }

// index remembers which endpoints computed which prompt blocks. It has a lock
// of its own, held for the walk over one prompt, or a part of a long one, and never
// together with the pool's: a walk over a prompt of megabytes must not keep others
// from choosing.
// A choice may thus miss what a Call learns in the same microsecond, which
// costs at most that one hit.
type index struct {
	turns atomic.Uint64 // choices so far: the seed of the tie-breaker

	mu      sync.Mutex
	waiting atomic.Int32 // for mu

	bytes  atomic.Int64 // the budget
	table  table        // empty until something is learned
	rooms  rooms        // how much each endpoint's cache holds
	trails trails       // back to the blocks that are not proved yet
	epoch  time.Time    // zero of the table's clock: the first time it was told
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
	if ix.bytes.Swap(bytes) == bytes {
		return
	}
	if _, room := ix.entries(); room == 0 {
		return
	}
	table := newTable(bytes) // which takes its time
	ix.lock()
	defer ix.mu.Unlock()
	old := ix.table
	if ix.bytes.Load() != bytes {
		return // somebody has changed it again
	}
	ix.table = table
	for from := 0; from < len(old.sets) && ix.bytes.Load() == bytes; from += resizeStep {
		ix.table.refill(old.sets[from:min(from+resizeStep, len(old.sets))])
		ix.breathe()
	}
}

const (
	// resizeStep is how many sets of an old table are taken over under one lock, and
	// learnStep how many blocks are learned: some tens of microseconds, and half a
	// millisecond at most where all servers hold the blocks.
	resizeStep = 256
	learnStep  = 4 * ahead
)

// lock takes the index for the caller, and counts who has to wait for it.
func (ix *index) lock() {
	if ix.mu.TryLock() {
		return
	}
	ix.waiting.Add(1)
	ix.mu.Lock()
	ix.waiting.Add(-1)
}

// breathe lets others in who wait for the index. Where nobody does, to ask the
// scheduler for them would cost as much as what was done since.
func (ix *index) breathe() {
	if ix.waiting.Load() == 0 {
		return
	}
	ix.mu.Unlock()
	runtime.Gosched()
	ix.lock()
}

// tick is the index's clock, in steps of a tenth of a second. Under the lock.
func (ix *index) tick(now time.Time) uint32 {
	if ix.epoch.IsZero() {
		// Room before the epoch, since deep blocks are stamped a little older.
		ix.epoch = now.Add(-time.Hour)
	}
	return uint32(max(0, now.Sub(ix.epoch)/tickLength)) & tickMask
}

// lookup appends to dst who holds how much of the chain of blocks.
func (ix *index) lookup(blocks []uint64, now time.Time, dst []holder) []holder {
	if len(blocks) == 0 {
		return dst
	}
	ix.lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		return dst
	}
	w := walk{ix: ix, blocks: blocks, tick: ix.tick(now), holders: dst}
	w.run()
	return w.holders
}

// ahead is how many blocks' sets are asked of memory at once, a quarter of what the
// nearest cache holds. One after the other, a long prompt's walk would wait for each.
const ahead = 64

// learnSent notes that the endpoint with the given cache will hold the blocks within a
// moment, and returns the trail back to them. Room is how many bytes of prompt its
// cache has room for, or Unknown: then what was last known counts, and before that
// there is no limit.
func (ix *index) learnSent(blocks []uint64, cache uint32, room int64, now time.Time) trail {
	ix.lock()
	defer ix.mu.Unlock()
	t := ix.trails.begin(len(blocks))
	ix.follow(ix.trails.of(t, len(blocks)), false, blocks, cache, room, now, false)
	return t
}

// learnComputed notes likewise that it holds what was sent.
func (ix *index) learnComputed(t trail, blocks []uint64, cache uint32, room int64, now time.Time) {
	ix.lock()
	defer ix.mu.Unlock()
	ix.follow(ix.trails.of(t, len(blocks)), true, blocks, cache, room, now, true)
}

// follow learns along a trail, if there is one: it is known where that leads, or it
// is noted. Under the lock.
func (ix *index) follow(trail []cell, known bool, blocks []uint64, cache uint32, room int64, now time.Time, proved bool) {
	if len(blocks) == 0 {
		return
	}
	if ix.table.empty() {
		ix.table = newTable(ix.bytes.Load())
	}
	tick := ix.tick(now)
	since, r := ix.rooms.since(cache), ix.rooms.of(cache, room)
	var own [ahead]cell
	// From the tail to the head, in the order in which engines evict.
	for end := len(blocks); end > 0; {
		if left := len(blocks) - end; left > 0 && left%learnStep < ahead {
			ix.breathe()
			since, r = ix.rooms.since(cache), ix.rooms.of(cache, room)
		}
		start := (end - 1) / ahead * ahead
		cells := own[:end-start]
		if trail != nil {
			cells = trail[start:end]
		}
		if known && trail != nil {
			ix.table.revisit(cells)
		} else {
			ix.table.seek(blocks[start:end], cells)
		}
		for i := end - 1; i >= start; i-- {
			had, crowded := ix.table.insert(blocks[i], &cells[i-start], i, cache, stampOf(tick, i, proved), since)
			if r == nil {
				continue
			}
			held := had.proved() && !had.used(i).gone(since)
			if held || proved && !crowded {
				r.use(int64(llmlb.BlockEnd(i+1)-llmlb.BlockEnd(i)), usedAt(tick, i), had.used(i), held)
			}
		}
		end = start
	}
	if r != nil && proved {
		r.measure(room, int64(llmlb.BlockEnd(len(blocks))))
		r.trim()
	}
}

// fill notes that the endpoint's cache takes in so many bytes that no prompt will
// be found in by: what it generates, and the end of a prompt that is no block.
func (ix *index) fill(cache uint32, room, bytes int64, now time.Time) {
	ix.lock()
	defer ix.mu.Unlock()
	if r := ix.rooms.of(cache, room); r != nil && bytes > 0 {
		r.use(bytes, usedAt(ix.tick(now), deepest), 0, false)
		r.trim()
	}
}

// forget removes the blocks from what the cache is believed to hold. They keep
// their room there: the engine has just computed them again.
func (ix *index) forget(blocks []uint64, cache uint32) {
	ix.lock()
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
	ix.lock()
	defer ix.mu.Unlock()
	return ix.table.used, len(ix.table.sets) * ways
}

// random returns the tie-breaker of the next choice. It differs between
// gateways that see the same numbers, since they do not ask at the same
// nanosecond, and is the same in every run of a simulation.
func (ix *index) random(now time.Time) uint64 {
	return mix(ix.turns.Add(1) ^ uint64(now.UnixNano()))
}

// suggest sets the budget of an index that holds nothing yet.
func (ix *index) suggest(bytes int64) {
	ix.lock()
	defer ix.mu.Unlock()
	if ix.table.empty() {
		ix.bytes.Store(bytes)
	}
}
