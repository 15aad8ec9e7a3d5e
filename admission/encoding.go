package admission

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// decode returns what the engine will read in a compressed body: for reading
// here alone, since the bytes that came are the ones sent on. Where the encoding
// is none, unknown or a lie, that is the body as it came. A body that unfolds to
// more than limit is too long.
func decode(encoding string, body []byte, limit int64, s *share) ([]byte, error) {
	var r io.Reader
	var err error
	switch from := bytes.NewReader(body); strings.ToLower(strings.TrimSpace(encoding)) {
	case "gzip", "x-gzip":
		r, err = gzip.NewReader(from)
	case "deflate":
		r, err = zlib.NewReader(from)
	case "zstd":
		var d *zstd.Decoder
		d, err = zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			defer d.Close()
			r = d
		}
	default:
		return body, nil
	}
	if err != nil {
		return body, nil //nolint:nilerr // not what it says: the engine will find out
	}
	plain, err := io.ReadAll(&counted{from: io.LimitReader(r, limit+1), share: s, most: limit})
	switch {
	case errors.Is(err, errNoMemory):
		return nil, err
	case int64(len(plain)) > limit:
		return nil, request.ErrTooLong
	case err != nil:
		return body, nil //nolint:nilerr // as above
	}
	return plain, nil
}

// maxWindow is the largest window a zstd body may ask for: that of level 19.
const maxWindow = 8 << 20
