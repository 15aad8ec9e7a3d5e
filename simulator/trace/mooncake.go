package trace

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// mooncakeBlock is how many tokens one of a row's hash_ids stands for.
const mooncakeBlock = 512

// mooncake reads JSON rows, as Mooncake and others after it publish them:
//
//	{"timestamp":27482,"input_length":1100,"output_length":52,"hash_ids":[0,7,8]}
//
// hash_ids may be missing. Where they are there, they are as many as the prompt
// has pieces, the last of which may be shorter.
type mooncake struct {
	text *bytes.Reader
	json *jsontext.Decoder
	ids  []uint64
}

func newMooncake() *mooncake {
	text := bytes.NewReader(nil)
	return &mooncake{text: text, json: jsontext.NewDecoder(text)}
}

func (*mooncake) block() int { return mooncakeBlock }

func (m *mooncake) row(line []byte) (Request, error) {
	m.text.Reset(line)
	m.json.Reset(m.text)
	q, err := m.object()
	if err != nil {
		return Request{}, err
	}
	if _, err := m.json.ReadToken(); !errors.Is(err, io.EOF) {
		return Request{}, errors.New("something follows the object")
	}
	return q, nil
}

func (m *mooncake) object() (q Request, err error) {
	if m.json.PeekKind() != '{' {
		if _, err := m.json.ReadValue(); err != nil {
			return q, fmt.Errorf("parsing: %w", err)
		}
		return q, errors.New("not a JSON object")
	}
	if _, err := m.json.ReadToken(); err != nil {
		return q, err
	}
	var at, input, output, ids bool
	for m.json.PeekKind() != '}' {
		name, err := m.json.ReadToken()
		if err != nil {
			return q, fmt.Errorf("parsing: %w", err)
		}
		switch name.String() {
		case "timestamp":
			at = true
			err = m.number("timestamp", func(s string) (err error) { q.At, err = milliseconds(s); return err })
		case "input_length":
			input = true
			err = m.number("input_length", func(s string) (err error) { q.Input, err = tokens(s, 1); return err })
		case "output_length":
			output = true
			err = m.number("output_length", func(s string) (err error) { q.Output, err = tokens(s, 0); return err })
		case "hash_ids":
			ids, err = m.hashes()
		default:
			if err = m.json.SkipValue(); err != nil {
				err = fmt.Errorf("parsing: %w", err)
			}
		}
		if err != nil {
			return q, err
		}
	}
	if _, err := m.json.ReadToken(); err != nil {
		return q, fmt.Errorf("parsing: %w", err)
	}
	for _, need := range []struct {
		name string
		has  bool
	}{{"timestamp", at}, {"input_length", input}, {"output_length", output}} {
		if !need.has {
			return q, fmt.Errorf("%s is missing", need.name)
		}
	}
	q.Output = max(q.Output, 1)
	if ids {
		if want := (q.Input + mooncakeBlock - 1) / mooncakeBlock; len(m.ids) != want {
			return q, fmt.Errorf("%d hash_ids for a prompt of %d tokens, which has %d pieces of %d", len(m.ids), q.Input, want, mooncakeBlock)
		}
		q.Blocks = slices.Clone(m.ids)
	}
	return q, nil
}

func (m *mooncake) number(name string, set func(string) error) error {
	v, err := m.json.ReadToken()
	if err != nil {
		return fmt.Errorf("parsing: %w", err)
	}
	if v.Kind() != '0' {
		return fmt.Errorf("reading %s: not a number", name)
	}
	if err := set(v.String()); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}

// hashes reads a row's ids into m.ids and says whether there are any. null and
// an empty list are none.
func (m *mooncake) hashes() (bool, error) {
	m.ids = m.ids[:0]
	open, err := m.json.ReadToken()
	if err != nil {
		return false, fmt.Errorf("parsing: %w", err)
	}
	if open.Kind() == 'n' {
		return false, nil
	}
	if open.Kind() != '[' {
		return false, errors.New("reading hash_ids: not a list")
	}
	for {
		v, err := m.json.ReadToken()
		if err != nil {
			return false, fmt.Errorf("parsing: %w", err)
		}
		switch v.Kind() {
		case ']':
			return len(m.ids) > 0, nil
		case '0':
		default:
			return false, errors.New("reading hash_ids: not a list of numbers")
		}
		id, err := v.Uint()
		if err != nil {
			// A signed hash is as good a name.
			signed, err := v.Int()
			if err != nil {
				return false, fmt.Errorf("reading hash_ids: %q is not a whole number of 64 bits", v.String())
			}
			id = uint64(signed)
		}
		m.ids = append(m.ids, id)
	}
}
