package llmlb

import (
	"bytes"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
)

// Attempts read a body, hold it, break off and close at any moment, and it is given up
// somewhere in between. Its memory goes back once, when nobody reads it any more: what
// an attempt has read is the body's, whoever has the memory next.
func TestABodyIsLetGoOnceAndBehindItsLastReader(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 1000)
	for range 300 {
		freed := 0 // under the content's lock
		c := new(Call)
		c.LendBody(bytes.Clone(want), func(b []byte) {
			freed++
			clear(b)
		})
		var readers sync.WaitGroup
		var held sync.WaitGroup
		for range 4 {
			r := c.BodyReader()
			holds, breaksOff := rand.IntN(2) == 0, rand.IntN(3) == 0
			if holds {
				held.Add(1)
			}
			readers.Go(func() {
				defer r.Close()
				if holds {
					r.(interface{ Hold() }).Hold()
					held.Done()
				}
				var got []byte
				part := make([]byte, 1+rand.IntN(3000))
				for {
					n, err := r.Read(part)
					got = append(got, part[:n]...)
					if err == io.EOF {
						if holds && len(got) != len(want) {
							t.Errorf("one who held it got %d bytes, want %d", len(got), len(want))
						}
						break
					}
					if breaksOff && rand.IntN(4) == 0 {
						break
					}
				}
				if !bytes.HasPrefix(want, got) {
					t.Error("what was read is not the body's")
				}
			})
		}
		held.Wait()
		content := c.body
		c.ReleaseBody()
		readers.Wait()
		content.mu.Lock()
		if freed != 1 {
			t.Errorf("the memory went back %d times, want once", freed)
		}
		content.mu.Unlock()
	}
}

// The connection was lost before anything of the body was sent, so it was closed. It is
// the same body that is sent on the next connection, unless it was given up.
func TestABodyThatWasClosedUnreadCanBeRead(t *testing.T) {
	for _, given := range []bool{false, true} {
		c := new(Call)
		freed := 0
		c.LendBody([]byte("body"), func([]byte) { freed++ })
		r := c.BodyReader()
		r.(interface{ Hold() }).Hold()
		if given {
			c.ReleaseBody()
		}
		if freed != 0 {
			t.Error("the memory went back while somebody held it")
		}
		_ = r.Close()
		want := "body"
		if given {
			want = ""
		}
		if got, err := io.ReadAll(r); string(got) != want || err != nil {
			t.Errorf("given up %v: read %q, %v; want %q", given, got, err, want)
		}
		if given != (freed == 1) {
			t.Errorf("given up %v: the memory went back %d times", given, freed)
		}
	}
}

// writer is a connection on which something happens while it takes bytes.
type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// What is being written is not given to anybody else, though its attempt is given up
// and its body is, too: the system still reads from it.
func TestABodyIsNotLetGoWhileItIsBeingWritten(t *testing.T) {
	want := bytes.Repeat([]byte("0123456789"), 60_000)
	for name, tc := range map[string]struct {
		close bool
		most  int64
		fails int // which write fails, 0 for none
		sends int
	}{
		"to its end":         {most: int64(len(want)), sends: len(want)},
		"beyond its end":     {most: 1 << 40, sends: len(want)},
		"a part":             {most: 1000, sends: 1000},
		"closed meanwhile":   {close: true, most: int64(len(want)), sends: pieceMost},
		"the writing fails":  {most: int64(len(want)), fails: 2, sends: pieceMost},
		"fails, and closed":  {close: true, most: int64(len(want)), fails: 1},
		"closed at its part": {close: true, most: 1000, sends: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			c, freed := new(Call), 0
			c.LendBody(bytes.Clone(want), func(b []byte) {
				freed++
				clear(b)
			})
			r := c.BodyReader()
			var got []byte
			writes := 0
			n, err := r.(interface {
				WriteUpTo(io.Writer, int64) (int64, error)
			}).WriteUpTo(writer(func(p []byte) (int, error) {
				if writes++; writes == 1 {
					c.ReleaseBody()
					if tc.close {
						_ = r.Close()
					}
				}
				if freed > 0 {
					t.Error("the memory went back while it was being written")
				}
				if writes == tc.fails {
					return 0, io.ErrClosedPipe
				}
				got = append(got, p...)
				return len(p), nil
			}), tc.most)
			if (err != nil) != (tc.fails > 0) || int(n) != tc.sends || !bytes.Equal(got, want[:tc.sends]) {
				t.Errorf("%d bytes were written, %v; want %d of the body", n, err, tc.sends)
			}
			rest, err := io.ReadAll(r)
			if tc.close {
				tc.sends = len(want)
			}
			if err != nil || tc.fails == 0 && !bytes.Equal(rest, want[tc.sends:]) {
				t.Errorf("%d more bytes can be read, %v; want %d", len(rest), err, len(want)-tc.sends)
			}
			_ = r.Close()
			if freed != 1 {
				t.Errorf("the memory went back %d times, want once", freed)
			}
		})
	}
}
