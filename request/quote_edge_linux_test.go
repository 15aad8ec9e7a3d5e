package request

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"golang.org/x/sys/unix"
)

// guarded returns size bytes of memory, right before and behind which there is none
// that may be read.
func guarded(t *testing.T, size int) []byte {
	page := unix.Getpagesize()
	all, err := unix.Mmap(-1, 0, size+2*page, unix.PROT_NONE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(all) })
	b := all[page : page+size]
	if err := unix.Mprotect(b, unix.PROT_READ|unix.PROT_WRITE); err != nil {
		t.Skip(err)
	}
	return b
}

// A string may lie at either end of what may be read, and end anywhere or not at all:
// nothing before it or behind it is looked at, which would end the process.
func TestNothingIsReadBesideAString(t *testing.T) {
	b := guarded(t, unix.Getpagesize())
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		for range 20 {
			s := randomString(rng, n+1)[:n]
			if rng.IntN(2) == 0 { // nothing ends it
				s = bytes.Repeat([]byte(`\"`), n)[:n]
			}
			for _, at := range []int{0, len(b) - n} {
				in := b[at : at+n : at+n]
				copy(in, s)
				if got, want := ends(in, 0), plainEnd(in, 0); got != [2]int{want, want} {
					t.Fatalf("%q ends at %d; want %d", in, got, want)
				}
			}
		}
	}
}
