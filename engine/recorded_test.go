package engine

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// lengths are those of one recorded request, in tokens.
type lengths struct{ input, output int }

// recorded reads the lengths in a recorded trace, in its order. The traces are
// not part of this repository; without them the test is skipped.
func recorded(t *testing.T, name string) []lengths {
	t.Helper()
	f, err := os.Open(filepath.Join("..", "..", "shared", "traces", name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the trace %s is not beside the repository", name)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []lengths
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<20)
	for header := strings.Contains(name, ".csv"); lines.Scan(); header = false {
		if header {
			continue
		}
		var l lengths
		if strings.Contains(name, ".csv") {
			l, err = fromCSV(lines.Text())
		} else {
			l, err = fromJSON(lines.Bytes())
		}
		if err != nil {
			t.Fatalf("reading line %d of %s: %v", len(all)+1, name, err)
		}
		all = append(all, l)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("reading %s: %d requests, %v", name, len(all), err)
	}
	return all
}

func fromJSON(line []byte) (lengths, error) {
	var row struct {
		Input  int `json:"input_length"`
		Output int `json:"output_length"`
	}
	err := json.Unmarshal(line, &row)
	return lengths{row.Input, row.Output}, err
}

// fromCSV reads a row of time, input and output length.
func fromCSV(line string) (l lengths, err error) {
	_, rest, _ := strings.Cut(line, ",")
	in, out, _ := strings.Cut(rest, ",")
	if l.input, err = strconv.Atoi(in); err != nil {
		return l, err
	}
	l.output, err = strconv.Atoi(out)
	return l, err
}
