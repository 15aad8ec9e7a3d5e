package admission

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// maxWindow is the largest window a zstd body may ask for: that of level 19.
	maxWindow = 8 << 20

	// minWindow is what the format has as its least, and blocks what is held
	// besides the window: of the last blocks, as they came and unfolded.
	minWindow = 1 << 10
	blocks    = 512 << 10
)

// unzstd unfolds a zstd body. A few bytes can ask for a window of megabytes, which
// is on account of the share too. Later frames may ask for more than the first,
// which nobody's do but to have it for nothing: then it begins again.
func unzstd(body []byte, limit int64, s *share) ([]byte, error) {
	window, held := windowOf(body), s.held
	for {
		if !s.take(window + blocks) {
			return nil, errNoMemory
		}
		plain, err := windowed(body, window, limit, s)
		if !errors.Is(err, errWindow) {
			return plain, err
		}
		s.set(held)
		if window == maxWindow {
			return body, nil // the engine will find out
		}
		window = maxWindow
	}
}

// errWindow says that a window is larger than was accounted for.
var errWindow = errors.New("the body needs a larger window")

func windowed(body []byte, window, limit int64, s *share) ([]byte, error) {
	d, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(uint64(window)))
	if err != nil {
		return body, nil //nolint:nilerr // not what it says: the engine will find out
	}
	defer d.Close()
	return unfold(within{d}, body, limit, s)
}

// within tells of a window that is too large in our own words.
type within struct{ from io.Reader }

// Read implements io.Reader.
func (w within) Read(p []byte) (int, error) {
	n, err := w.from.Read(p)
	if errors.Is(err, zstd.ErrWindowSizeExceeded) || errors.Is(err, zstd.ErrDecoderSizeExceeded) {
		err = errWindow
	}
	return n, err
}

// windowOf is the window that the first frame with something in it asks for, as
// far as one may.
func windowOf(body []byte) int64 {
	for {
		var h zstd.Header
		rest, err := h.DecodeAndStrip(body)
		switch {
		case err != nil:
			return minWindow
		case h.Skippable && int64(h.SkippableSize) <= int64(len(rest)):
			body = rest[h.SkippableSize:]
			continue
		case h.SingleSegment:
			h.WindowSize = h.FrameContentSize
		}
		return int64(min(max(h.WindowSize, minWindow), maxWindow))
	}
}
