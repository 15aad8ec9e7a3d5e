package trace

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// FormatError says that a file is not what it was taken for.
type FormatError struct {
	// Asked is the format that was asked for, "" if none was.
	Asked string

	// Looks is the format that the file looks like, "" if like none.
	Looks string

	// Found says what the file begins with, and what to do about it.
	Found string
}

// Error is "the file begins with …, which looks like format …, and not like …".
func (e *FormatError) Error() string {
	text := "the file begins with " + e.Found
	switch {
	case e.Looks != "" && e.Asked != "":
		text += fmt.Sprintf(", which looks like format %s, and not like %s", e.Looks, e.Asked)
	case e.Looks != "":
		text += ", which looks like format " + e.Looks
	}
	return text
}

// packed are files that are no text, by their first bytes.
var packed = []struct{ magic, name string }{
	{"\x28\xb5\x2f\xfd", "what zstd packs: unpack it first (zstd -d)"},
	{"\xfd7zXZ", "what xz packs: unpack it first (xz -d)"},
	{"BZh", "what bzip2 packs: unpack it first (bzip2 -d)"},
	{"PK\x03\x04", "what zip packs: unpack it first (unzip)"},
	{"\x1f\x8b", "what gzip packs, twice: unpack it once first (gzip -d)"},
	{"PAR1", "Parquet: write it as CSV or as JSON, a row a line"},
	{"\xff\xfe", "text in UTF-16: write it as UTF-8"},
	{"\xfe\xff", "text in UTF-16: write it as UTF-8"},
}

// looksWrong tells by the first line why the file cannot be read in the format
// that was asked for, or in any if none was. It is nil where nothing speaks
// against it.
func looksWrong(line []byte, asked string) error {
	for _, p := range packed {
		if bytes.HasPrefix(line, []byte(p.magic)) {
			return &FormatError{Asked: asked, Found: p.name}
		}
	}
	switch {
	case !utf8.Valid(line) || bytes.IndexByte(line, 0) >= 0:
		return &FormatError{Asked: asked, Found: "bytes that are no text: a trace is JSON, a row a line, or CSV"}
	case line[0] == '[':
		return &FormatError{Asked: asked, Found: "a list in JSON: write its rows one to a line, without brackets and commas around them (jq -c '.[]')"}
	case string(line) == "{":
		return &FormatError{Asked: asked, Found: "JSON that is spread over several lines: write a row in one line (jq -c .)"}
	case line[0] == '{' && asked != "" && asked != Mooncake:
		return &FormatError{Asked: asked, Looks: Mooncake, Found: "a row of JSON"}
	case line[0] == '{' || asked != "" && asked != Mooncake:
		return nil
	}
	t, err := newTable(line, "")
	switch {
	case err == nil && asked == Mooncake && t.client != absent:
		return &FormatError{Asked: asked, Looks: ServeGen, Found: "a header of CSV"}
	case err == nil && asked == Mooncake:
		return &FormatError{Asked: asked, Looks: Azure, Found: "a header of CSV"}
	}
	return nil
}
