package admission

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// The longest body that is taken by itself is taken when nobody else has one:
// what is kept for small bodies would otherwise keep it out for ever.
func TestTheLongestBodyIsTakenWhenItIsAlone(t *testing.T) {
	const limit = 1 << 20
	var all bodies
	if !all.room(limit, limit) {
		t.Error("there is no room for it, though nothing is held")
	}
	long := share{of: &all, limit: limit}
	for range 16 {
		if !long.take(limit / 16) {
			t.Fatalf("it is stopped after %d bytes", long.held)
		}
	}
	if long.take(1) {
		t.Error("more than there is was given")
	}
	if all.held.Load() != limit {
		t.Errorf("%d bytes are held, want %d", all.held.Load(), limit)
	}
	long.set(0)

	small, second := share{of: &all, limit: limit}, share{of: &all, limit: limit}
	if !small.take(1) || !second.take(limit-limit/reserved-1) || second.take(1) || all.room(limit, limit) {
		t.Error("beside another an eighth is kept for small bodies")
	}
	if !small.take(smallBody - 1) {
		t.Error("and they do not get it")
	}
}

// What counts is the memory that a body takes while it comes, which is that of its
// buffer, but no more than the body can have.
func TestABufferCounts(t *testing.T) {
	const limit = 1 << 20
	var all bodies
	half := share{of: &all, limit: limit}
	from := io.MultiReader(bytes.NewReader(make([]byte, 200<<10)), stop(func() {
		if held := all.held.Load(); held < 256<<10 || held > 512<<10 {
			t.Errorf("%d bytes are held when 200 KiB have come", held)
		}
	}))
	if _, err := request.ReadBody(&counted{from: from, share: &half, most: limit}, limit, limit); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
	half.set(0)
	for _, length := range []int64{limit, -1} {
		whole := share{of: &all, limit: limit}
		body, err := request.ReadBody(&counted{from: bytes.NewReader(make([]byte, limit)), share: &whole, most: limit}, length, limit)
		if err != nil || len(body) != limit || all.held.Load() != limit {
			t.Errorf("length %d: %d bytes, %v; %d are held", length, len(body), err, all.held.Load())
		}
		whole.set(0)
	}
}

// stop is a reader that breaks off.
type stop func()

func (s stop) Read([]byte) (int, error) {
	s()
	return 0, io.ErrUnexpectedEOF
}

// A zstd body of a few bytes can ask for a window of megabytes, which counts while
// it is unfolded, whatever stands before the frame that asks.
func TestAZstdWindowCounts(t *testing.T) {
	const window = 8 << 20
	var wide bytes.Buffer
	z, err := zstd.NewWriter(&wide, zstd.WithWindowSize(window))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(z, plain)
	_ = z.Flush() // so that the frame does not tell how long it is
	_ = z.Close()
	small, _ := zstd.NewWriter(nil)
	narrow := small.EncodeAll([]byte(" "), nil)
	skipped := []byte{0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'h', 'i'}
	for _, test := range []struct {
		name string
		body []byte
		want string
		held int64
	}{
		{"one frame", wide.Bytes(), plain, window},
		{"behind what is skipped", append(skipped, wide.Bytes()...), plain, window},
		{"behind a small frame", append(bytes.Clone(narrow), wide.Bytes()...), " " + plain, window},
		{"a small one", narrow, " ", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			var all bodies
			s := share{of: &all, limit: 64 << 20}
			got, err := decode("zstd", test.body, 1<<20, &s)
			if err != nil || string(got) != test.want {
				t.Fatalf("it unfolds to %q, %v", got, err)
			}
			if held := all.held.Load(); held < test.held || held > test.held+1<<20 {
				t.Errorf("%d bytes are held, want %d and a little more", held, test.held)
			}
			if test.held == 0 {
				return
			}
			s.set(0)
			s.limit = 4 << 20
			if _, err := decode("zstd", test.body, 1<<20, &s); !errors.Is(err, errNoMemory) {
				t.Errorf("without room for it: %v", err)
			}
		})
	}
}
