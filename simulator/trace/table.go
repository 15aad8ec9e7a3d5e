package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxClient is how long a client's name may be, in bytes.
const maxClient = 256

// absent is the place of a column that a table does not have.
const absent = -1

// columns are the headings, in lower case, under which a table has what we want.
var columns = struct{ at, dated, input, output, client []string }{
	at:     []string{"timestamp_ms"},
	dated:  []string{"timestamp"},
	input:  []string{"input_length", "contexttokens"},
	output: []string{"output_length", "generatedtokens"},
	client: []string{"client_id"},
}

// table reads CSV.
type table struct {
	width                     int // columns
	at, input, output, client int // their places
	dated                     bool
	cells                     []string
	clients                   map[string]string // one string for each name
}

// newTable reads the header.
func newTable(line []byte, format string) (*table, error) {
	t := &table{clients: make(map[string]string)}
	if err := t.split(line); err != nil {
		return nil, fmt.Errorf("reading a header: %w", err)
	}
	t.width = len(t.cells)
	heads := make([]string, t.width)
	for i, cell := range t.cells {
		heads[i] = strings.ToLower(cell)
	}
	var twice error
	place := func(names []string) int {
		at := absent
		for i, h := range heads {
			switch {
			case !slices.Contains(names, h):
			case at == absent:
				at = i
			default:
				// Either might be the right one, and the other would spoil what is measured.
				twice = fmt.Errorf("reading a header: the columns %d and %d, %q and %q, say the same: keep one", at+1, i+1, t.cells[at], t.cells[i])
			}
		}
		return at
	}
	t.at, t.input, t.output, t.client = place(columns.at), place(columns.input), place(columns.output), absent
	if t.at == absent {
		t.at, t.dated = place(columns.dated), true
	}
	if format != Azure {
		t.client = place(columns.client)
	}
	if twice != nil {
		return nil, twice
	}
	for _, need := range []struct {
		at    int
		names string
	}{
		{t.at, "timestamp_ms or TIMESTAMP"},
		{t.input, "input_length or ContextTokens"},
		{t.output, "output_length or GeneratedTokens"},
	} {
		if need.at == absent {
			text := fmt.Sprintf("reading a header: no column %s in it, and a line of JSON it is not either", need.names)
			if bytes.IndexByte(line, ',') < 0 && bytes.ContainsAny(line, ";\t") {
				text += ": columns are separated by commas"
			}
			return nil, errors.New(text)
		}
	}
	if format == ServeGen && t.client == absent {
		return nil, &FormatError{Asked: ServeGen, Looks: Azure, Found: "a header without a column client_id"}
	}
	return t, nil
}

// block is never asked for: no row has Blocks.
func (*table) block() int { return 0 }

func (t *table) row(line []byte) (q Request, err error) {
	if err := t.split(line); err != nil {
		return q, err
	}
	if len(t.cells) != t.width {
		return q, fmt.Errorf("%d columns under a header of %d", len(t.cells), t.width)
	}
	read := milliseconds
	if t.dated {
		read = date
	}
	if q.At, err = read(t.cells[t.at]); err != nil {
		return q, fmt.Errorf("reading the arrival: %w", err)
	}
	if q.Input, err = tokens(t.cells[t.input], 1); err != nil {
		return q, fmt.Errorf("reading the prompt's length: %w", err)
	}
	if q.Output, err = tokens(t.cells[t.output], 0); err != nil {
		return q, fmt.Errorf("reading the answer's length: %w", err)
	}
	q.Output = max(q.Output, 1)
	if t.client != absent {
		name := t.cells[t.client]
		if len(name) > maxClient {
			return q, fmt.Errorf("a client_id of more than %d bytes", maxClient)
		}
		own, known := t.clients[name]
		if !known {
			// The cell is a part of the line, which should not live as long.
			own = strings.Clone(name)
			t.clients[own] = own
		}
		q.Client = own
	}
	return q, nil
}

// split fills t.cells with a line's, without space around them. A quoted cell
// that goes over several lines is an error.
func (t *table) split(line []byte) error {
	t.cells = t.cells[:0]
	if bytes.IndexByte(line, '"') < 0 {
		for cell := range strings.SplitSeq(string(line), ",") {
			t.cells = append(t.cells, strings.TrimSpace(cell))
		}
		return nil
	}
	r := csv.NewReader(bytes.NewReader(line))
	r.TrimLeadingSpace = true
	cells, err := r.Read()
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		return fmt.Errorf("splitting at commas: %w", parse.Err) // without its own line number, which is always 1
	}
	for _, cell := range cells {
		t.cells = append(t.cells, strings.TrimSpace(cell))
	}
	return err
}

// dates are the forms in which published traces write times, with or without
// parts of a second. What has no zone is UTC.
var dates = []string{
	"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00",
	"2006-01-02T15:04:05", "2006-01-02T15:04:05Z07:00",
}

// date reads a time since 1970.
func date(text string) (time.Duration, error) {
	for _, form := range dates {
		at, err := time.Parse(form, text)
		if err != nil {
			continue
		}
		if at.Year() < 1970 || at.Year() > 2200 {
			return 0, fmt.Errorf("the year %d is not within 1970 to 2200", at.Year())
		}
		return time.Duration(at.UnixNano()), nil
	}
	return 0, fmt.Errorf("%q is not a date and time like 2023-11-16 18:15:46.68", text)
}
