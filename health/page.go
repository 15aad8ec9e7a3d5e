package health

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	dto "github.com/prometheus/client_model/go"
)

// maxSeries bounds how many wanted series one page may have. 256 data-parallel
// ranks need about 3,000.
const maxSeries = 8192

// maxLine and maxLabels bound one sample. The parser's time grows with the
// square of the number of labels, and no engine has twenty.
const (
	maxLine   = 16 << 10
	maxLabels = 64
)

// scratch is what reading a page needs and may use again for the next.
type scratch struct {
	body   bytes.Buffer // the page, decoded
	picked []byte       // its wanted lines, cleaned
	arena  arena
	gzip   *gzip.Reader
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

// maxKeep is the largest page whose memory is kept for later ones.
const maxKeep = 256 << 10

func (sc *scratch) release() {
	if sc.body.Cap() <= maxKeep && cap(sc.picked) <= maxKeep { // and so is the arena
		scratches.Put(sc)
	}
}

// parse returns the wanted families of a page. Lines that nobody asked for may
// be of any kind, and a broken wanted line costs only itself.
func (sc *scratch) parse(page []byte, wanted map[string]struct{}) (*families, reason) {
	var n int
	sc.picked, n = pick(sc.picked[:0], page, wanted)
	switch {
	case n == 0:
		return nil, familyNotFound
	case n > maxSeries:
		return nil, "too many series"
	}
	return sc.arena.samples(sc.picked, n), ""
}

// families are the wanted families of a page.
type families struct {
	// byName holds them. All are untyped, since TYPE lines are not picked: they
	// are where pages differ from the standard most, and nothing is lost without
	// them.
	byName map[string]*dto.MetricFamily

	objects int    // how many a JSON page listed
	doubt   reason // the first value met that cannot be, in the operator's words
}

// pick appends the page's wanted samples to dst, each as one clean line of name,
// labels and value, and returns how many there are.
func pick(dst, page []byte, wanted map[string]struct{}) ([]byte, int) {
	n := 0
	var lengths [256]bool // of names, by which most lines are told from those wanted
	for name := range wanted {
		lengths[uint8(len(name))] = true
	}
	for len(page) > 0 && n <= maxSeries {
		line := page
		if i := bytes.IndexByte(page, '\n'); i >= 0 {
			line, page = page[:i], page[i+1:]
		} else {
			page = nil
		}
		for len(line) > 0 && (line[0] == ' ' || line[0] == '\t') {
			line = line[1:]
		}
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		end := nameEnd(line)
		if !lengths[uint8(end)] {
			continue
		}
		if _, ok := wanted[string(line[:end])]; !ok {
			continue
		}
		if len(line) > maxLine {
			continue
		}
		labels, value, ok := splitSample(line[end:])
		if !ok {
			continue
		}
		dst = append(dst, line[:end]...)
		dst = append(dst, labels...)
		dst = append(dst, ' ')
		dst = append(dst, value...)
		dst = append(dst, '\n')
		n++
	}
	return dst, n
}

// nameEnd returns where a sample's name ends.
func nameEnd(line []byte) int {
	for _, c := range [...]byte{'{', ' ', '\t'} {
		if i := bytes.IndexByte(line, c); i >= 0 {
			line = line[:i]
		}
	}
	return len(line)
}

// splitSample cuts what follows a sample's name into labels, with their
// braces, and value. Timestamps, exemplars and carriage returns go.
func splitSample(rest []byte) (labels, value []byte, ok bool) {
	const blank = " \t\r"
	rest = bytes.Trim(rest, blank)
	if len(rest) > 0 && rest[0] == '{' {
		end := labelsEnd(rest)
		if end < 0 || !utf8.Valid(rest[:end]) {
			return nil, nil, false
		}
		labels, rest = rest[:end], bytes.TrimLeft(rest[end:], blank)
	}
	if i := bytes.IndexAny(rest, blank); i >= 0 {
		rest = rest[:i]
	}
	v, ok := number(string(rest))
	if ok && math.IsInf(v, 0) { // also what overflows, which the parser refuses
		rest = strconv.AppendFloat(nil, v, 'g', -1, 64)
	}
	return labels, rest, ok
}

// labelsEnd returns the index after the closing brace of a label set, or -1 when
// there is none or the labels are too many.
// Braces within quotes do not count.
func labelsEnd(b []byte) int {
	quoted, labels := false, 1
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ',' && !quoted:
			if labels++; labels > maxLabels {
				return -1
			}
		case c == '}' && !quoted:
			return i + 1
		}
	}
	return -1
}

// number reads a sample's value as the text format writes it. A value that
// overflows is infinite, which nothing here believes.
func number(s string) (float64, bool) {
	for i := range len(s) {
		if c := s[i]; c == '_' || c == 'p' || c == 'P' { // Go's own, not the format's
			return 0, false
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}
