package health

import (
	"cmp"
	"context"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// maxPage bounds a page, both as sent and after decompression.
const maxPage = 8 << 20

// ask is which page is wanted.
type ask struct {
	path string // where the settings name none

	// text and json say in which forms the answer can be read.
	text, json bool

	// home asks the upstream itself, wherever its metrics are.
	home bool

	memo *memo
}

// accept is the request's Accept header.
func (a *ask) accept() string {
	// Asked for OpenMetrics, engines answer in a format with other names.
	const text, json = "text/plain;version=0.0.4", "application/json"
	switch {
	case a.text && a.json:
		return text + ", " + json + ";q=0.5"
	case a.json:
		return json
	}
	return text
}

// page is what one exchange brought.
type page struct {
	contact

	body    []byte // decoded; valid until release
	header  http.Header
	scratch *scratch
}

// release gives the page's memory back.
func (p *page) release() {
	if p.scratch != nil {
		p.scratch.release()
		p.scratch, p.body = nil, nil
	}
}

// fetch reads the endpoint's page. ctx bounds the whole exchange; limit is that
// bound in words.
func fetch(ctx context.Context, s *llmlb.Settings, address string, a ask, limit time.Duration) (*page, reason) {
	p := &page{}
	q := query{at: s.Scrape.Metrics, path: a.path, accept: a.accept(), gzip: true, memo: a.memo}
	if a.home {
		q.at = ""
	}
	res, why := p.send(ctx, s, address, &q, limit) //nolint:bodyclose // discard closes it
	if why != "" {
		return p, why
	}
	why = p.read(ctx, res, &a, limit)
	discard(res.Body)
	return p, why
}

// read takes in a response that is no redirect.
func (p *page) read(ctx context.Context, res *http.Response, a *ask, limit time.Duration) reason {
	if res.StatusCode != http.StatusOK {
		// A server error passes, for example while a model is loaded; that
		// metrics are not implemented does not.
		p.conclusive = res.StatusCode < 500 && res.StatusCode != http.StatusTooManyRequests ||
			res.StatusCode == http.StatusNotImplemented
		return p.unkeyed(res.StatusCode, statusReason(res.StatusCode))
	}
	p.conclusive = true
	p.header = res.Header
	if kind := res.Header.Get("Content-Type"); kind != "" {
		media, _, _ := mime.ParseMediaType(kind)
		switch {
		case media == "text/plain", media == "application/openmetrics-text", media == "application/octet-stream":
		case media == "application/json" && a.json:
		default:
			return contentReason(media)
		}
	}
	p.scratch = scratches.Get().(*scratch)
	p.scratch.body.Reset()
	raw := &io.LimitedReader{R: res.Body, N: maxPage + 1}
	var decoded io.Reader = raw
	switch encoding := strings.ToLower(res.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		if err := p.scratch.unzip(raw); err != nil {
			p.conclusive = ctx.Err() == nil
			return errorReason(cmp.Or(ctx.Err(), err), limit)
		}
		decoded = p.scratch.gzip
	default:
		return "unknown content encoding"
	}
	n, err := p.scratch.body.ReadFrom(io.LimitReader(decoded, maxPage+1))
	switch {
	case n > maxPage || raw.N == 0:
		return tooLarge
	case err != nil:
		p.conclusive = false
		return errorReason(cmp.Or(ctx.Err(), err), limit)
	}
	p.body = p.scratch.body.Bytes()
	return ""
}

func (sc *scratch) unzip(r io.Reader) (err error) {
	if sc.gzip == nil {
		sc.gzip, err = gzip.NewReader(r)
		return err
	}
	return sc.gzip.Reset(r)
}
