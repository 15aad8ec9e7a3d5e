package trace

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	const ms = time.Millisecond
	long := strings.Repeat("x", 1<<17) // longer than what is buffered
	for name, tc := range map[string]struct {
		format, text string
		want         Trace
	}{
		"mooncake": {
			text: `
			{"timestamp": 0, "input_length": 1100, "output_length": 52, "hash_ids": [0, 7, 8]}
			{"timestamp": 3000, "input_length": 512, "output_length": 1, "hash_ids": [0]}`,
			want: Trace{Block: 512, Requests: []Request{
				{Input: 1100, Output: 52, Blocks: []uint64{0, 7, 8}},
				{At: 3000 * ms, Input: 512, Output: 1, Blocks: []uint64{0}},
			}},
		},
		"names told by nothing but themselves": {
			text: `{"hash_ids":[0],"chat_id":[{"timestamp":9}],"output_length":2,"type":"` + long + `","input_length":3,"timestamp":4}`,
			want: Trace{Block: 512, Requests: []Request{{At: 4 * ms, Input: 3, Output: 2, Blocks: []uint64{0}}}},
		},
		"prompts like no others": {
			text: `{"timestamp":0,"input_length":1,"output_length":1}
			{"timestamp":1,"input_length":600,"output_length":1,"hash_ids":[]}
			{"timestamp":2,"input_length":600,"output_length":1,"hash_ids":null}`,
			want: Trace{Requests: []Request{{Input: 1, Output: 1}, {At: ms, Input: 600, Output: 1}, {At: 2 * ms, Input: 600, Output: 1}}},
		},
		"ids of 64 bits, signed or not": {
			text: `{"timestamp":0,"input_length":1000,"output_length":1,"hash_ids":[18446744073709551615,-2]}`,
			want: Trace{Block: 512, Requests: []Request{{Input: 1000, Output: 1, Blocks: []uint64{1<<64 - 1, 1<<64 - 2}}}},
		},
		"unsorted rows keep their order within an instant": {
			text: `
			{"timestamp":5,"input_length":1,"output_length":1}
			{"timestamp":2,"input_length":2,"output_length":1}
			{"timestamp":5,"input_length":3,"output_length":1}
			{"timestamp":2,"input_length":4,"output_length":1}`,
			want: Trace{Requests: []Request{{At: 2 * ms, Input: 2, Output: 1}, {At: 2 * ms, Input: 4, Output: 1}, {At: 5 * ms, Input: 1, Output: 1}, {At: 5 * ms, Input: 3, Output: 1}}},
		},
		"an answer of nothing is one token": {
			text: `{"timestamp":0,"input_length":1,"output_length":0}`,
			want: Trace{Requests: []Request{{Input: 1, Output: 1}}},
		},
		"whole numbers with a point, parts of a millisecond": {
			text: `{"timestamp":1.25,"input_length":12.0,"output_length":1e2}`,
			want: Trace{Requests: []Request{{At: 1250 * time.Microsecond, Input: 12, Output: 100}}},
		},
		"times since 1970": {
			text: `
			{"timestamp":1700000000500,"input_length":1,"output_length":1}
			{"timestamp":1700000000000,"input_length":2,"output_length":1}`,
			want: Trace{Requests: []Request{{Input: 2, Output: 1}, {At: 500 * ms, Input: 1, Output: 1}}},
		},
		"the file's own zero": {
			text: `{"timestamp":60000,"input_length":1,"output_length":1}`,
			want: Trace{Requests: []Request{{At: time.Minute, Input: 1, Output: 1}}},
		},
		"azure": {
			text: "timestamp_ms,input_length,output_length\r\n\r\n0,374,44\r\n4315,396,109\r\n",
			want: Trace{Requests: []Request{{Input: 374, Output: 44}, {At: 4315 * ms, Input: 396, Output: 109}}},
		},
		"azure as published": {
			text: "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 23:59:59.9000000,374,44\n2023-11-17 00:00:00.1500001,396,109\n",
			want: Trace{Requests: []Request{{Input: 374, Output: 44}, {At: 250*ms + 100, Input: 396, Output: 109}}},
		},
		"azure with zones": {
			text: "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00+00:00,1,1\n2024-05-10T02:00:01+02:00,2,2\n",
			want: Trace{Requests: []Request{{Input: 1, Output: 1}, {At: time.Second, Input: 2, Output: 2}}},
		},
		"azure leaves clients out": {
			format: Azure, text: "timestamp_ms,client_id,input_length,output_length\n0,a,1,1\n",
			want: Trace{Requests: []Request{{Input: 1, Output: 1}}},
		},
		"servegen": {
			text: "timestamp_ms,client_id,input_length,output_length\n6,65,8168,785\n6,66,24105,985\n",
			want: Trace{Requests: []Request{{At: 6 * ms, Client: "65", Input: 8168, Output: 785}, {At: 6 * ms, Client: "66", Input: 24105, Output: 985}}},
		},
		"columns in another order, quoted, after a mark": {
			text: "\ufeff\"Output_Length\", model,INPUT_LENGTH,timestamp_ms,client_id\n3, \"a, b\", 2 ,1,\"x\"\n",
			want: Trace{Requests: []Request{{At: ms, Input: 2, Output: 3, Client: "x"}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.want.Name = "t"
			for what, text := range map[string]string{"plain": tc.text, "gzip": zipped(t, tc.text)} {
				got, err := Read(strings.NewReader(text), "t", Options{Format: tc.format})
				if err != nil {
					t.Fatalf("%s: %v", what, err)
				}
				check(t, got)
				if !reflect.DeepEqual(*got, tc.want) {
					t.Errorf("%s:\ngot  %+v\nwant %+v", what, *got, tc.want)
				}
			}
		})
	}
}

// Requests of one tick come in the order of the file, however many they are.
func TestReadIsStable(t *testing.T) {
	var rows strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&rows, `{"timestamp":%d,"input_length":%d,"output_length":1}`+"\n", 3000*(1-i%2), i+1)
	}
	tr, err := Read(strings.NewReader(rows.String()), "t", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range tr.Requests[1:] {
		if a, b := tr.Requests[i], tr.Requests[i+1]; a.At == b.At && a.Input > b.Input {
			t.Fatalf("row %d comes before row %d of the same time", a.Input, b.Input)
		}
	}
}

// Whoever gets a row wrong is told which one, and what is wrong with it.
func TestReadRefuses(t *testing.T) {
	const head = "timestamp_ms,input_length,output_length\n"
	for name, tc := range map[string]struct{ format, text, want string }{
		"an empty file":         {text: "\n \n", want: `reading trace "t": no request in it`},
		"a header alone":        {text: head, want: "no request in it"},
		"a format of no name":   {format: "parquet", text: head, want: `unknown format "parquet"; have mooncake, azure, servegen`},
		"text":                  {text: "hello\n", want: "line 1: reading a header: no column timestamp_ms or TIMESTAMP in it, and a line of JSON it is not either"},
		"a list of rows":        {text: `[{"timestamp":0}]`, want: "line 1: the file begins with a list in JSON: write its rows one to a line"},
		"a list, insisted on":   {format: Mooncake, text: "[", want: "line 1: the file begins with a list in JSON"},
		"rows over many lines":  {text: "{\n\"timestamp\":0\n}", want: "line 1: the file begins with JSON that is spread over several lines"},
		"CSV read as JSON":      {format: Mooncake, text: head, want: "the file begins with a header of CSV, which looks like format azure, and not like mooncake"},
		"CSV with clients":      {format: Mooncake, text: "client_id," + head, want: "a header of CSV, which looks like format servegen, and not like mooncake"},
		"JSON read as CSV":      {format: Azure, text: `{"timestamp":0}`, want: "the file begins with a row of JSON, which looks like format mooncake, and not like azure"},
		"JSON and clients":      {format: ServeGen, text: `{"timestamp":0}`, want: "looks like format mooncake, and not like servegen"},
		"text read as JSON":     {format: Mooncake, text: "hello", want: "line 1: parsing"},
		"servegen, no clients":  {format: ServeGen, text: head, want: "a header without a column client_id, which looks like format azure, and not like servegen"},
		"semicolons":            {text: strings.ReplaceAll(head, ",", ";"), want: "columns are separated by commas"},
		"a column twice":        {text: "timestamp_ms,input_length,output_length,input_length\n0,1,1,9\n", want: `the columns 2 and 4, "input_length" and "input_length", say the same: keep one`},
		"two names for one":     {text: "timestamp_ms,ContextTokens,output_length,input_length\n0,1,1,9\n", want: `the columns 2 and 4, "ContextTokens" and "input_length", say the same`},
		"two clients":           {text: "client_id,timestamp_ms,input_length,output_length,Client_ID\n", want: "the columns 1 and 5"},
		"zstd":                  {text: "\x28\xb5\x2f\xfd\x04\x00", want: "the file begins with what zstd packs: unpack it first"},
		"gzip in gzip":          {text: zipped(t, zipped(t, head)), want: "the file begins with what gzip packs, twice"},
		"UTF-16":                {text: "\xff\xfet\x00i\x00", want: "text in UTF-16: write it as UTF-8"},
		"no text":               {format: Azure, text: "\x00\x01\x02\n", want: "bytes that are no text"},
		"half a row":            {text: `{"timestamp":0,"input_length":1,"output_length":1}` + "\n" + `{"timestamp":0,"inp`, want: "line 2: parsing"},
		"two rows in a line":    {text: `{"timestamp":0,"input_length":1,"output_length":1}{}`, want: "line 1: something follows the object"},
		"a row that is a list":  {text: `{"timestamp":0,"input_length":1,"output_length":1}` + "\n[1]", want: "line 2: not a JSON object"},
		"a name twice":          {text: `{"timestamp":0,"timestamp":0}`, want: "line 1: parsing"},
		"no timestamp":          {text: `{"input_length":1,"output_length":1}`, want: "line 1: timestamp is missing"},
		"no output":             {text: `{"timestamp":0,"input_length":1}`, want: "line 1: output_length is missing"},
		"a length in words":     {text: `{"timestamp":0,"input_length":"1","output_length":1}`, want: "line 1: reading input_length: not a number"},
		"an empty prompt":       {text: `{"timestamp":0,"input_length":0,"output_length":1}`, want: "line 1: reading input_length: 0 tokens are not within 1 to 100000000"},
		"a negative answer":     {text: `{"timestamp":0,"input_length":1,"output_length":-5}`, want: "line 1: reading output_length: -5 tokens are not within 0 to"},
		"half a token":          {text: `{"timestamp":0,"input_length":1.5,"output_length":1}`, want: `line 1: reading input_length: "1.5" is not a whole number`},
		"tokens without end":    {text: `{"timestamp":0,"input_length":1e400,"output_length":1}`, want: "line 1: reading input_length: 1e400 tokens are not within"},
		"a negative time":       {text: `{"timestamp":-1,"input_length":1,"output_length":1}`, want: "line 1: reading timestamp: -1 is not within 0 to"},
		"microseconds":          {text: `{"timestamp":1700000000000000,"input_length":1,"output_length":1}`, want: "line 1: reading timestamp: 1700000000000000 is not within"},
		"two zeros":             {text: `{"timestamp":0,"input_length":1,"output_length":1}` + "\n" + `{"timestamp":1700000000000,"input_length":1,"output_length":1}`, want: "between the first arrival and the last"},
		"ids of no list":        {text: `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":3}`, want: "line 1: reading hash_ids: not a list"},
		"ids of words":          {text: `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":["a"]}`, want: "line 1: reading hash_ids: not a list of numbers"},
		"a broken id":           {text: `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1.5]}`, want: `line 1: reading hash_ids: "1.5" is not a whole number of 64 bits`},
		"an id of 65 bits":      {text: `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[18446744073709551616]}`, want: "is not a whole number of 64 bits"},
		"more ids than pieces":  {text: "\n" + `{"timestamp":0,"input_length":512,"output_length":1,"hash_ids":[1,2]}`, want: "line 2: 2 hash_ids for a prompt of 512 tokens, which has 1 pieces of 512"},
		"fewer ids than pieces": {text: `{"timestamp":0,"input_length":513,"output_length":1,"hash_ids":[1]}`, want: "line 1: 1 hash_ids for a prompt of 513 tokens, which has 2 pieces of 512"},
		"a cell too many":       {text: head + "0,1,1,1\n", want: "line 2: 4 columns under a header of 3"},
		"a cell in words":       {text: head + "0,x,1\n", want: `line 2: reading the prompt's length: "x" is not a number`},
		"no number":             {text: head + "NaN,1,1\n", want: `line 2: reading the arrival: "NaN" is not a number`},
		"never":                 {text: head + "Inf,1,1\n", want: "line 2: reading the arrival: Inf is not within"},
		"an answer of NaN":      {text: head + "0,1,nan\n", want: `line 2: reading the answer's length: "nan" is not a whole number`},
		"half a quote":          {text: head + "0,\"1,1\n", want: "line 2: splitting at commas"},
		"no date":               {text: "TIMESTAMP,ContextTokens,GeneratedTokens\n12,1,1\n", want: `line 2: reading the arrival: "12" is not a date and time`},
		"a date long ago":       {text: "TIMESTAMP,ContextTokens,GeneratedTokens\n1066-10-14 09:00:00,1,1\n", want: "the year 1066 is not within 1970 to 2200"},
		"a client's novel":      {text: "timestamp_ms,client_id,input_length,output_length\n0," + strings.Repeat("x", 300) + ",1,1", want: "line 2: a client_id of more than 256 bytes"},
		"half a gzip file":      {text: zipped(t, head+strings.Repeat("0,1,1\n", 1000))[:40], want: "the gzip data breaks off, so that the file is not whole: unexpected EOF"},
		"a header of gzip":      {text: "\x1f\x8bnothing", want: "unpacking"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Read(strings.NewReader(tc.text), "t", Options{Format: tc.format})
			if err == nil {
				t.Fatalf("read as %+v", got)
			}
			if !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %q, want %q in it", err, tc.want)
			}
		})
	}
}

// A file of a few kilobytes must not take all memory, however it is made.
func TestReadLimits(t *testing.T) {
	row := `{"timestamp":0,"input_length":1024,"output_length":1,"hash_ids":[1,2]}` + "\n"
	ample := limits{unpacked: 1 << 20, line: 1 << 10, rows: 100, ids: 100}
	for name, tc := range map[string]struct {
		text   string
		change func(*limits)
		want   string
	}{
		"rows":     {strings.Repeat(row, 4), func(l *limits) { l.rows = 3 }, "line 4: more than 3 requests"},
		"ids":      {strings.Repeat(row, 4), func(l *limits) { l.ids = 5 }, "line 3: more than 5 ids"},
		"line":     {row + strings.Repeat(" ", 1025), func(*limits) {}, "line 2: longer than 1024 bytes"},
		"unpacked": {zipped(t, row+strings.Repeat("\n", 1<<20)), func(*limits) {}, "the text goes on after 1048576 bytes"},
		"plain":    {row + strings.Repeat("\n", 1<<20), func(*limits) {}, "the text goes on after 1048576 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			lim := ample
			tc.change(&lim)
			if _, err := read(strings.NewReader(tc.text), Options{}, lim); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want %q in it", err, tc.want)
			}
		})
	}
	if tr, err := read(strings.NewReader(strings.Repeat(row, 4)), Options{}, ample); err != nil || len(tr.Requests) != 4 {
		t.Errorf("what is within the limits: %v", err)
	}
}

// Ids that stand for a piece alone still say what prompts share, and no more.
func TestReadChains(t *testing.T) {
	for name, text := range map[string]string{
		"an id after different ones": `
			{"timestamp":0,"input_length":1536,"output_length":1,"hash_ids":[5,6,7]}
			{"timestamp":1,"input_length":1536,"output_length":1,"hash_ids":[5,9,7]}
			{"timestamp":2,"input_length":1536,"output_length":1,"hash_ids":[5,6,8]}`,
		"an id twice in a prompt": `
			{"timestamp":0,"input_length":1536,"output_length":1,"hash_ids":[5,5,7]}
			{"timestamp":1,"input_length":1536,"output_length":1,"hash_ids":[5,9,7]}
			{"timestamp":2,"input_length":1536,"output_length":1,"hash_ids":[5,5,8]}`,
		"a first id that comes second elsewhere": `
			{"timestamp":0,"input_length":1536,"output_length":1,"hash_ids":[0,0,7]}
			{"timestamp":1,"input_length":1536,"output_length":1,"hash_ids":[0,9,6]}
			{"timestamp":2,"input_length":1536,"output_length":1,"hash_ids":[0,0,8]}`,
	} {
		t.Run(name, func(t *testing.T) {
			tr, err := Read(strings.NewReader(text), "t", Options{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, tr)
			q := tr.Requests
			if a, b := shared(q[0], q[1]), shared(q[0], q[2]); a != 1 || b != 2 {
				t.Errorf("shares %d and %d pieces with the others, want 1 and 2", a, b)
			}
		})
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tuesday.csv.gz")
	if err := os.WriteFile(path, []byte(zipped(t, "timestamp_ms,input_length,output_length\n0,1,1\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	tr, err := Open(path, Options{})
	if err != nil || tr.Name != "tuesday" {
		t.Errorf("got %+v, %v", tr, err)
	}
	if _, err := Open(path, Options{Format: Mooncake}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("an error that does not name the file: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "wednesday"), Options{}); !os.IsNotExist(unwrapAll(err)) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("a directory was read")
	}
}

func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok || u.Unwrap() == nil {
			return err
		}
		err = u.Unwrap()
	}
}

// shared counts the pieces with which both prompts begin.
func shared(a, b Request) int {
	n := 0
	for n < min(len(a.Blocks), len(b.Blocks)) && a.Blocks[n] == b.Blocks[n] {
		n++
	}
	return n
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func BenchmarkOpen(b *testing.B) {
	path := published(b, "mooncake_conversation_60min_dithered.jsonl.gz")
	for b.Loop() {
		if _, err := Open(path, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
