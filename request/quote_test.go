package request

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// plainEnd finds the end of a string as one reads it, byte after byte.
func plainEnd(b []byte, i int) int {
	for ; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// pieces are what is easily taken for the end of a string, or hides it: escapes of
// all lengths, and the bytes beside quote and backslash.
var pieces = []string{
	`\"`, `\"`, `\"`, `\\`, `\\\"`, `\n`, `\"#`, `\"]`, `]`, `[`, `#`, `!`, "\x00", "\x80", "\xa2", "\xdc", "\xff", "a", "word", "a longer run of text without any",
}

func randomString(rng *rand.Rand, n int) []byte {
	var b []byte
	for len(b) < n {
		b = append(b, pieces[rng.IntN(len(pieces))]...)
	}
	return b
}

// ends returns where the string's end is found by what the machine can do in one step,
// and by words, as on machines that can do no more.
func ends(b []byte, i int) [2]int {
	end := stringEnd(b, i)
	defer func(v bool) { vectors = v }(vectors)
	vectors = false
	return [2]int{end, stringEnd(b, i)}
}

// A string that seems to end early lets text pass for fields, one that seems to end
// late hides fields: wherever in it the quotes and backslashes lie.
func TestStringEnd(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		b := append([]byte(`"`), randomString(rng, rng.IntN(700))...)
		b = append(b, `"`...)
		b = append(b, randomString(rng, rng.IntN(80))...)
		for _, cut := range []int{len(b), rng.IntN(len(b)) + 1} {
			if got, want := ends(b[:cut], 1), plainEnd(b[:cut], 1); got != [2]int{want, want} {
				t.Fatalf("%q ends at %d; want %d", b[:cut], got, want)
			}
		}
	}
}

// FuzzStringEnd does so with any text.
func FuzzStringEnd(f *testing.F) {
	f.Add([]byte(strings.Repeat(`\"`, 200)+`"tail`), 0)
	f.Add([]byte(strings.Repeat(`\\\"#]`, 60)+`\\"`), 3)
	f.Add([]byte(`\"`+strings.Repeat("x", 300)+`"`), 1)
	f.Fuzz(func(t *testing.T, b []byte, i int) {
		if i < 0 || i > len(b) {
			return
		}
		if got, want := ends(b, i), plainEnd(b, i); got != [2]int{want, want} {
			t.Fatalf("%q from %d ends at %d; want %d", b, i, got, want)
		}
	})
}

// Fields stand in any order and are read in another, and there may be more long
// strings than are remembered: each still ends where it does.
func TestLongStrings(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 20, longStrings, 2 * longStrings} {
		var b []byte
		var starts []int
		for range n {
			b = append(b, `,"`...)
			starts = append(starts, len(b))
			b = append(b, randomString(rng, rng.IntN(3*longString))...)
			b = append(b, '"')
		}
		var l longs
		check := func(i int) {
			t.Helper()
			if got, want := l.end(b, i), plainEnd(b, i); got != want {
				t.Fatalf("%d strings: the one at %d ends at %d; want %d", n, i, got, want)
			}
		}
		for _, i := range starts {
			check(i)
		}
		for range 4 * n {
			check(starts[rng.IntN(n)])
		}
		for _, i := range starts {
			check(i)
		}
	}
}

// What is remembered is not looked at again, which is all that it is for.
func TestLongStringsAreScannedOnce(t *testing.T) {
	b := []byte(`"` + strings.Repeat("x", longString) + `" "` + strings.Repeat("y", longString) + `"`)
	second := bytes.IndexByte(b, 'y')
	var l longs
	first, last := l.end(b, 1), l.end(b, second)
	clear(b)
	for range 2 {
		if l.end(b, second) != last || l.end(b, 1) != first {
			t.Fatal("a long string was scanned again")
		}
	}
}
