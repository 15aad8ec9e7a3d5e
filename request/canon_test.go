package request

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The same prompt gives the same hashes however the writes fall on the blocks.
func TestCanonChunking(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var c canon
		var s script
		c.start(testOptions, rng.IntN(9000))
		if rng.IntN(2) == 0 {
			c.keyLimit = keyBytes
		}
		limit := c.keyLimit
		for range rng.IntN(30) {
			switch p := make([]byte, rng.IntN(1<<rng.IntN(12))); rng.IntN(5) {
			case 0:
				c.fold(foldSalt, p)
				s.fold(foldSalt, p)
			case 1:
				for i := range min(len(p), 300) {
					c.id(uint32(i))
					s.write([]byte{byte(i), byte(i >> 8), 0, 0})
				}
			case 2:
				c.picture(p)
				s.picture(p)
			default:
				for i := range p {
					p[i] = byte(rng.Uint32())
				}
				c.write(p)
				s.write(p)
			}
			if limit == 0 && rng.IntN(10) == 0 {
				c.closeKey()
				s.closeKey()
			}
		}
		c.closeKey()
		blocks, _ := s.hash(testOptions.Seed, len(s.text), len(s.folds))
		if c.bytes() != len(s.text) || len(c.blocks) != llmlb.BlockCount(len(s.text)) {
			t.Fatalf("%d bytes in %d blocks; want %d in %d", c.bytes(), len(c.blocks), len(s.text), llmlb.BlockCount(len(s.text)))
		}
		if len(blocks) > 0 && !reflect.DeepEqual(c.blocks, blocks) {
			t.Fatalf("blocks %x; want %x", c.blocks, blocks)
		}
		if want := s.key(testOptions.AffinityKey, limit); c.key != want {
			t.Fatalf("key %x; want %x", c.key, want)
		}
	}
}

// A block in the middle of one prompt is not the same block at the start of
// another: an engine's cache holds prefixes only.
func TestBlocksAreChained(t *testing.T) {
	x, y := strings.Repeat("x", llmlb.ShortBlock), strings.Repeat("y", llmlb.ShortBlock)
	hash := func(text string) []uint64 {
		var c canon
		c.start(testOptions, 0)
		c.write([]byte(text))
		return c.blocks
	}
	px, py, pyx := hash(x), hash(y), hash(y+x)
	if pyx[0] != py[0] {
		t.Error("a prompt that continues another does not share its block")
	}
	if pyx[1] == px[0] {
		t.Error("text in the middle matches the same text at the start")
	}
}

func TestMixTellsItsArgumentsApart(t *testing.T) {
	seen := map[uint64]bool{}
	for _, h := range []uint64{
		mix(1, 1, 1, nil), mix(2, 1, 1, nil), mix(1, 2, 1, nil), mix(1, 1, 2, nil), mix(1, 1, 1, []byte{0}), mix(1, 1, 1, []byte{0, 0}),
	} {
		if seen[h] {
			t.Errorf("%x twice", h)
		}
		seen[h] = true
	}
}
