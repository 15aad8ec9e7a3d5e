package request

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
)

func TestReadBody(t *testing.T) {
	text := strings.Repeat("0123456789", 30_000)
	broken := errors.New("connection reset")
	for _, tc := range []struct {
		name          string
		r             io.Reader
		length, limit int64
		want          int
		err           error
	}{
		{"known length", strings.NewReader(text), 300_000, 1 << 20, 300_000, nil},
		{"unknown length", strings.NewReader(text), -1, 1 << 20, 300_000, nil},
		{"byte by byte", iotest.OneByteReader(strings.NewReader(text[:3000])), -1, 1 << 20, 3000, nil},
		{"data with the end", iotest.DataErrReader(strings.NewReader(text)), 300_000, 1 << 20, 300_000, nil},
		{"at the limit", strings.NewReader(text), -1, 300_000, 300_000, nil},
		{"one over the limit", strings.NewReader(text), -1, 299_999, 300_000, ErrTooLong},
		{"far over the limit", strings.NewReader(text), 300_000, 1000, 1001, ErrTooLong},
		{"a lie about the length", strings.NewReader(text[:10]), 1 << 40, 1 << 20, 10, nil},
		{"empty", strings.NewReader(""), -1, 1 << 20, 0, nil},
		{"broken", io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken)), -1, 1 << 20, 300_000, broken},
	} {
		body, err := ReadBody(tc.r, tc.length, tc.limit)
		if !errors.Is(err, tc.err) || len(body) != tc.want || !bytes.Equal(body, []byte(text[:len(body)])) {
			t.Errorf("%s: %d bytes, %v; want %d, %v", tc.name, len(body), err, tc.want, tc.err)
		}
		if int64(cap(body)) > 2*int64(tc.want)+bodyFirst+1 {
			t.Errorf("%s: %d bytes of memory for %d", tc.name, cap(body), tc.want)
		}
	}
}

// Memory is taken for what came, not for what is announced.
func TestAnnouncedLengthTakesNoMemory(t *testing.T) {
	// An announced terabyte would end the test here.
	if _, err := ReadBody(io.MultiReader(strings.NewReader("x"), errReader{}), 1<<40, 1<<41); err == nil {
		t.Error("a body that broke off was taken")
	}
	buf, err := ReadBody(strings.NewReader(strings.Repeat("x", 200_000)), 200_000, 1<<20)
	if err != nil || len(buf) != 200_000 || cap(buf) > 300_000 {
		t.Errorf("%d bytes of room for %d, %v", cap(buf), len(buf), err)
	}
}

// A large body must not be copied once more for the byte by which its end is seen.
func TestABodyOfAPowerOfTwoIsNotCopiedOnceMore(t *testing.T) {
	const size = 4 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	body, err := ReadBody(bytes.NewReader(make([]byte, size)), size, 2*size)
	runtime.ReadMemStats(&after)
	if err != nil || len(body) != size {
		t.Fatalf("%d bytes, %v", len(body), err)
	}
	// The source, the body, and the smaller ones that it grew out of.
	if took := after.TotalAlloc - before.TotalAlloc; took > 3*size+size/2 {
		t.Errorf("%d bytes were allocated for a body of %d", took-size, size)
	}
}

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
