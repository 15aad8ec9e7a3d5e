package admission

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"

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
		return unzstd(body, limit, s)
	default:
		return body, nil
	}
	if err != nil {
		return body, nil //nolint:nilerr // not what it says: the engine will find out
	}
	return unfold(r, body, limit, s)
}

// unfold reads what a body unfolds to.
func unfold(r io.Reader, body []byte, limit int64, s *share) ([]byte, error) {
	plain, err := io.ReadAll(&counted{from: io.LimitReader(r, limit+1), share: s, most: limit})
	switch {
	case errors.Is(err, errNoMemory), errors.Is(err, errWindow):
		return nil, err
	case int64(len(plain)) > limit:
		return nil, request.ErrTooLong
	case err != nil:
		return body, nil //nolint:nilerr // as above
	}
	return plain, nil
}
