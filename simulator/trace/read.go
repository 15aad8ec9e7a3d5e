package trace

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
)

// The formats that can be read.
const (
	// Mooncake is a JSON object a line: timestamp in milliseconds, input_length,
	// output_length, and hash_ids of 512 tokens each.
	Mooncake = "mooncake"

	// Azure is CSV under a header: timestamp_ms, input_length and output_length,
	// or as published TIMESTAMP (a date and time), ContextTokens and
	// GeneratedTokens. It knows nothing of prefixes.
	Azure = "azure"

	// ServeGen is CSV under a header like Azure's with a client_id besides.
	ServeGen = "servegen"
)

// Formats are the names that Options.Format takes.
func Formats() []string { return []string{Mooncake, Azure, ServeGen} }

// Options say how to read a trace.
type Options struct {
	// Format is one of Formats.
	// Default: what the first line looks like.
	Format string
}

// limits bound what reading takes, in memory above all: a trace may come from
// anywhere, and a gzip file of a megabyte may unpack to a gigabyte.
type limits struct {
	unpacked int64 // bytes
	line     int   // bytes
	rows     int
	ids      int
}

// readLimits admit a hundred times the largest published trace with prefixes, and
// a day of a large service without. At most, reading takes some 2 GiB.
var readLimits = limits{unpacked: 2 << 30, line: 16 << 20, rows: 4_000_000, ids: 30_000_000}

const (
	// maxTokens is what a prompt or an answer may have. It is a hundred times what
	// a model can take, and sums of it stay far from the end of an int64.
	maxTokens = 100_000_000

	// maxSpan is what may lie between the first arrival and the last: more is a
	// column in another unit, or some times that count from the trace's begin
	// among others that count from 1970.
	maxSpan = 400 * 24 * time.Hour

	// maxStart is the latest first arrival that counts from the trace's begin.
	// What begins later counts from 1970, as dates do, or is a part cut out of the
	// middle, and then nobody wants to wait for it.
	maxStart = 24 * time.Hour
)

// Open reads the trace in a file. Its name without the ending is the trace's.
// See Read.
func Open(path string, o Options) (*Trace, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading a trace: %w", err)
	}
	defer f.Close()
	t, err := Read(f, path, o)
	if err != nil {
		return nil, err
	}
	t.Name = filepath.Base(path)
	for _, ending := range []string{".gz", ".jsonl", ".json", ".csv"} {
		t.Name = strings.TrimSuffix(t.Name, ending)
	}
	return t, nil
}

// Read reads a trace, unpacking it if it is gzip. The name is for errors and for
// Trace.Name.
//
// Rows come out in the order of their arrival; those at the same time in the
// order in which they are written. Fields and columns that the format does not
// have are passed over, an answer of no tokens counts as one. Times count from
// the file's own zero, unless they are dates or begin after more than a day:
// then from the first.
//
// Ids of pieces that turn out to stand for a piece alone, whatever is before it,
// are replaced by such that stand for all before it too.
//
// At most 2 GiB are unpacked, 16 MiB are a line, 4,000,000 requests and 30,000,000
// ids a trace. A file that is not of the format that was asked for is a
// FormatError.
//
// Everything else that is not as the format says is an error that names the
// line: one row in the wrong unit would spoil whatever is measured.
func Read(r io.Reader, name string, o Options) (*Trace, error) {
	t, err := read(r, o, readLimits)
	if err != nil {
		return nil, fmt.Errorf("reading trace %q: %w", name, err)
	}
	t.Name = name
	return t, nil
}

// rowReader is one format.
type rowReader interface {
	// row reads a line. At counts from the file's zero, or from 1970.
	row(line []byte) (Request, error)

	// block is Trace.Block if any row has Blocks.
	block() int
}

func read(r io.Reader, o Options, lim limits) (*Trace, error) {
	if o.Format != "" && !slices.Contains(Formats(), o.Format) {
		return nil, fmt.Errorf("unknown format %q; have %s", o.Format, strings.Join(Formats(), ", "))
	}
	text, err := unpack(r)
	if err != nil {
		return nil, fmt.Errorf("unpacking: %w", err)
	}
	text = &bounded{in: text, max: lim.unpacked}
	l := lines{in: bufio.NewReaderSize(text, 1<<16), max: lim.line}
	t := new(Trace)
	var rows rowReader
	ids := 0
	for {
		line, err := l.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, fmt.Errorf("line %d: the gzip data breaks off, so that the file is not whole: %w", l.number, err)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		if rows == nil {
			var headed bool
			if rows, headed, err = sniff(line, o.Format); err != nil {
				return nil, fmt.Errorf("line %d: %w", l.number, err)
			}
			if headed {
				continue
			}
		}
		q, err := rows.row(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", l.number, err)
		}
		if len(t.Requests) == lim.rows {
			return nil, fmt.Errorf("line %d: more than %d requests", l.number, lim.rows)
		}
		if ids += len(q.Blocks); ids > lim.ids {
			return nil, fmt.Errorf("line %d: more than %d ids of pieces of prompts", l.number, lim.ids)
		}
		if len(q.Blocks) > 0 {
			t.Block = rows.block()
		}
		t.Requests = append(t.Requests, q)
	}
	if len(t.Requests) == 0 {
		return nil, errors.New("no request in it")
	}
	if err := t.settle(); err != nil {
		return nil, err
	}
	t.chain()
	return t, nil
}

// unpack is what is in a gzip file, or the file itself. It goes by the first
// bytes: files are renamed, and some tools unpack without renaming.
func unpack(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if magic, err := in.Peek(2); err != nil || magic[0] != 0x1f || magic[1] != 0x8b {
		return in, nil // an error comes again when it is read
	}
	return gzip.NewReader(in)
}

// sniff tells a format by its first line and whether that is a header. Only JSON
// begins with a brace.
func sniff(line []byte, format string) (r rowReader, headed bool, err error) {
	if err := looksWrong(line, format); err != nil {
		return nil, false, err
	}
	if format == Mooncake || format == "" && line[0] == '{' {
		return newMooncake(), false, nil
	}
	r, err = newTable(line, format)
	return r, true, err
}

// settle brings the rows in order and their times to the trace's begin.
func (t *Trace) settle() error {
	slices.SortStableFunc(t.Requests, byArrival)
	first, last := t.Requests[0].At, t.Requests[len(t.Requests)-1].At
	if span := last - first; span > maxSpan {
		return fmt.Errorf("%s between the first arrival and the last, more than %s: are the times in milliseconds?", span, maxSpan)
	}
	if first > maxStart {
		for i := range t.Requests {
			t.Requests[i].At -= first
		}
	}
	return nil
}
