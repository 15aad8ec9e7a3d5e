package request

import (
	"encoding/binary"

	"github.com/zeebo/xxh3"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// canon hashes a canonical prompt as it is written, into two chains: the block
// hashes, which end at every block, and the conversation key, which ends once,
// where [canon.closeKey] is called. Both are seeded, by different seeds, and
// each step seeds the next.
type canon struct {
	chain  uint64
	blocks []uint64

	key      uint64
	keyOpen  bool
	keyLimit int // bytes after which the key closes by itself; 0: never

	buf   [llmlb.LongBlock + 4]byte // the block that is not full yet, and an id over its end
	n     int                       // bytes in buf
	size  int                       // of that block when it will be full
	done  int                       // bytes in full blocks
	ids   int                       // token ids written
	media int                       // pictures and sounds written

	sample *sample // of the text, nil when nobody needs it
}

// start readies the hasher for a prompt of about the given length.
func (c *canon) start(o *Options, length int) {
	c.chain, c.key, c.keyOpen = o.Seed, o.AffinityKey, true
	c.size = llmlb.ShortBlock
	// Pictures make the guess far too high, so it is not trusted beyond what a
	// long text needs; append grows the rest.
	if n := min(llmlb.BlockCount(length), 1024); n > 0 {
		c.blocks = make([]uint64, 0, n)
	}
}

// bytes returns the length of what was written.
func (c *canon) bytes() int { return c.done + c.n }

// write appends text.
func (c *canon) write(p []byte) {
	if c.sample != nil {
		c.sample.write(p)
	}
	c.hash(p)
}

// hash appends what may be no text. What is long is hashed where it lies.
func (c *canon) hash(p []byte) {
	for c.n+len(p) >= c.size {
		if c.n == 0 {
			full := p[:c.size]
			p = p[c.size:]
			c.block(full)
			continue
		}
		p = p[copy(c.buf[c.n:c.size], p):]
		c.n = 0
		c.block(c.buf[:c.size])
	}
	c.n += copy(c.buf[c.n:c.size], p)
}

// block ends a block.
func (c *canon) block(full []byte) {
	c.chain = xxh3.HashSeed(full, c.chain)
	c.blocks = append(c.blocks, c.chain)
	if c.keyOpen {
		c.key = xxh3.HashSeed(full, c.key)
	}
	c.done += len(full)
	if c.keyLimit > 0 && c.done >= c.keyLimit {
		c.keyOpen = false
	}
	c.size = llmlb.BlockEnd(len(c.blocks)+1) - c.done
}

// closeKey ends the conversation key here.
func (c *canon) closeKey() {
	if c.keyOpen {
		c.key = xxh3.HashSeed(c.buf[:c.n], c.key)
		c.keyOpen = false
	}
}

// Tags begin each piece. A tag's upper case says that JSON text follows rather
// than what stood between a string's quotes.
const (
	tagTemplate  = 't'
	tagTemplArgs = 'a'
	tagEffort    = 'e'
	tagProcessor = 'm'
	tagTools     = 'o'
	tagFunctions = 'f'
	tagDocuments = 'd'
	tagRole      = 'r'
	tagName      = 'n'
	tagCallID    = 'i'
	tagThought   = 'h'
	tagContent   = 'c'
	tagCalls     = 'l'
	tagCall      = 'k'
	tagRefusal   = 'x'
	tagAudio     = 's'
	tagMedia     = 'g'
	tagText      = 'p'
	tagSuffix    = 'u'

	upper = 'a' - 'A'
)

// Folds are what enters the chains without taking bytes.
const (
	foldModel byte = iota + 1
	foldAdapter
	foldSalt
	foldSession
	foldSpecial
	foldMedia
	foldIDs
	foldText
	foldNextList
)

// piece writes one value under a tag: nothing when it is absent.
func (c *canon) piece(tag byte, b []byte, v span) {
	switch {
	case v.absent():
	case b[v.lo] == '"':
		c.mark(tag)
		c.write(inner(b, v))
	default:
		c.mark(tag - upper)
		c.write(v.in(b))
	}
}

func (c *canon) mark(tag byte) {
	m := [2]byte{'"', tag}
	c.hash(m[:])
}

// fold mixes into both chains what must tell prompts apart but takes no bytes.
// Where it happens counts too.
func (c *canon) fold(tag byte, p []byte) {
	c.chain = mix(c.chain, tag, c.bytes(), p)
	if c.keyOpen {
		c.key = mix(c.key, tag, c.bytes(), p)
	}
}

func mix(h uint64, tag byte, at int, p []byte) uint64 {
	var m [17]byte
	binary.LittleEndian.PutUint64(m[0:], xxh3.HashSeed(p, h))
	binary.LittleEndian.PutUint64(m[8:], uint64(at))
	m[16] = tag
	return xxh3.HashSeed(m[:], h)
}

const (
	// mediaBytes is what a picture or a sound counts in the canonical prompt,
	// whatever its size: as much as 256 tokens of text, which is what a small
	// picture costs an engine.
	mediaBytes = 1024

	// After manyMedia of them in one request each counts mediaCrumb only, for
	// a body of tiny links would otherwise unfold into twenty times its size.
	manyMedia  = 256
	mediaCrumb = 16
)

var mediaFill = func() (fill [mediaBytes]byte) {
	fill[0], fill[1] = '"', tagMedia
	return fill
}()

// picture writes a picture, a sound, a film or a file. Its data is folded into
// the chains, not written, so that both depend on it by their own seed.
func (c *canon) picture(data []byte) {
	c.fold(foldMedia, data)
	fill := mediaFill[:]
	if c.media++; c.media > manyMedia {
		fill = fill[:mediaCrumb]
	}
	c.hash(fill)
}

// id writes one token id.
func (c *canon) id(v uint32) {
	c.ids++
	binary.LittleEndian.PutUint32(c.buf[c.n:], v)
	if c.n += 4; c.n >= c.size {
		c.wrap()
	}
}

// wrap ends a block that an id has filled, or overfilled where text before it
// was no multiple of four bytes long.
func (c *canon) wrap() {
	var over [4]byte
	k := copy(over[:], c.buf[c.size:c.n])
	c.n = 0
	c.block(c.buf[:c.size])
	c.n = copy(c.buf[:], over[:k])
}
