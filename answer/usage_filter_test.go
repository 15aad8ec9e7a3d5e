package answer

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// filtered passes the stream through a filter in pieces of the size given.
func filtered(stream []byte, size int) string {
	var f UsageFilter
	var out []byte
	for i := 0; i < len(stream); i += size {
		out = f.Filter(out, stream[i:min(i+size, len(stream))])
	}
	return string(f.Flush(out))
}

// A client that has not asked for usage must not see the chunk that we asked
// for, since it may not be able to read it; and it must see all else.
func TestUsageChunkIsRemoved(t *testing.T) {
	const (
		mixed   = `{"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":1}}`
		null    = `{"choices":[],"usage":null}`
		spaced  = "{\"usage\" : { \"prompt_tokens\" : 1 } , \"choices\" : [ ] }"
		without = `{"usage":{"prompt_tokens":1}}`
	)
	long := `{"choices":[],"usage":{},"x":"` + strings.Repeat("x", maxHeld) + `"}`
	for _, test := range []struct{ name, stream, want string }{
		{"at the end", sse(role, hello, stop, counted, "[DONE]"), sse(role, hello, stop, "[DONE]")},
		{"after the end", sse(hello, "[DONE]", counted), sse(hello, "[DONE]")},
		{"alone", sse(counted), ""},
		{"twice", sse(counted, hello, spaced), sse(hello)},
		{"usage first", sse(spaced, stop), sse(stop)},
		{"usage beside choices", sse(mixed, null), sse(mixed, null)},
		{"no choices at all", sse(without, `{"usage":{},"choices":null}`, `{"usage":{},"choices":[null]}`), sse(without, `{"usage":{},"choices":null}`, `{"usage":{},"choices":[null]}`)},
		{"names twice", sse(`{"choices":[],"usage":{},"choices":[]}`), sse(`{"choices":[],"usage":{},"choices":[]}`)},
		{"usage that is no object", sse(`{"choices":[],"usage":1}`, `{"choices":[],"usage":[{}]}`), sse(`{"choices":[],"usage":1}`, `{"choices":[],"usage":[{}]}`)},
		{"deeper", sse(`{"x":{"choices":[],"usage":{}}}`, `[{"choices":[],"usage":{}}]`), sse(`{"x":{"choices":[],"usage":{}}}`, `[{"choices":[],"usage":{}}]`)},
		{"more behind it", sse(counted + "x"), sse(counted + "x")},
		{"broken", "data: {\"choices\":[],\"usage\":{\"pro\n\n" + sse(counted), "data: {\"choices\":[],\"usage\":{\"pro\n\n"},
		{"as text", sse(chunk(`{"content":"{\"choices\":[],\"usage\":{}}"}`)), sse(chunk(`{"content":"{\"choices\":[],\"usage\":{}}"}`))},
		{"CRLF", strings.ReplaceAll(sse(hello, counted, stop), "\n", "\r\n"), strings.ReplaceAll(sse(hello, stop), "\n", "\r\n")},
		{"CR", strings.ReplaceAll(sse(hello, counted, stop), "\n", "\r"), strings.ReplaceAll(sse(hello, stop), "\n", "\r")},
		{"without a blank line", sse(hello) + "data: " + counted, sse(hello)},
		{"without a line's end", sse(hello) + "data:" + counted + "\n", sse(hello)},
		{"in two lines", "data: {\"choices\":[],\ndata: \"usage\":{}}\n\n" + sse(stop), sse(stop)},
		{"with a name", "event: x\nid: 3\ndata: " + counted + "\n\n" + sse(stop), sse(stop)},
		{"comments and blank lines", "\n\n: ping\n\n" + sse(counted) + "\n: pong\n\n\n", "\n\n: ping\n\n\n: pong\n\n\n"},
		{"very long", sse(long, counted), sse(long)},
		{"nothing", "", ""},
		{"no events", "{\"choices\":[],\"usage\":{}}", "{\"choices\":[],\"usage\":{}}"},
	} {
		t.Run(test.name, func(t *testing.T) {
			sizes := []int{1, 2, 3, 7, 100, 4096, len(test.stream) + 1}
			for _, size := range sizes {
				if got := filtered([]byte(test.stream), size); got != test.want {
					t.Fatalf("in pieces of %d:\ngot  %q\nwant %q", size, got, test.want)
				}
			}
		})
	}
}

// A token must not wait in the filter for the next one.
func TestNothingIsHeldThatMayPass(t *testing.T) {
	var f UsageFilter
	for _, step := range []struct{ in, out string }{
		{": ping\n\n", ": ping\n\n"},
		{`data: {"id":"c","choices":[{`, `data: {"id":"c","choices":[{`},
		{`"delta"`, `"delta"`},
		{`:{}}]}`, `:{}}]}`},
		{"\n", "\n"},
		{"\n", "\n"},
		{`data: [`, `data: [`},
		{"DONE]\n\ndata: {\"id\"", "DONE]\n\n"},
		{`:1,"choices":[]`, ""},
		{`}`, `data: {"id":1,"choices":[]}`},
		{"\n\nda", "\n\n"},
		{`ta: {"choices":[],"usage":{}`, ""},
		{"}\n", ""},
		{"\ndata: x", "data: x"},
	} {
		if got := string(f.Filter(nil, []byte(step.in))); got != step.out {
			t.Errorf("behind %q came %q, want %q", step.in, got, step.out)
		}
	}
}

// wanted is the stream without its usage chunks, worked out the slow way.
func wanted(stream []byte) string {
	var out, event bytes.Buffer
	var data []string
	flush := func() {
		var chunk map[string]json.RawMessage
		var choices []json.RawMessage
		joined := strings.Join(data, "\n")
		if event.Len() > maxHeld || strictlyInvalid(joined) || json.Unmarshal([]byte(joined), &chunk) != nil ||
			!strings.HasPrefix(string(chunk["usage"]), "{") || chunk["choices"] == nil || string(chunk["choices"]) == "null" ||
			json.Unmarshal(chunk["choices"], &choices) != nil || len(choices) > 0 {
			out.Write(event.Bytes())
		}
		event.Reset()
		data = nil
	}
	for len(stream) > 0 {
		end := bytes.IndexAny(stream, "\r\n")
		next := end + 1
		if end < 0 {
			end, next = len(stream), len(stream)
		} else if bytes.HasPrefix(stream[end:], []byte("\r\n")) {
			next++
		}
		event.Write(stream[:next])
		line := string(stream[:end])
		if rest, ok := strings.CutPrefix(line, "data:"); ok {
			data = append(data, rest)
		} else if strings.HasPrefix(line, "error:") {
			data = append(data, "no JSON")
		} else if line == "" {
			flush()
		}
		stream = stream[next:]
	}
	flush()
	return out.String()
}

func FuzzUsageFilter(f *testing.F) {
	f.Add([]byte(sse(role, hello, stop, counted, "[DONE]")), 7)
	f.Add([]byte(strings.ReplaceAll(sse(hello, counted, stop), "\n", "\r\n")), 3)
	f.Add([]byte(strings.ReplaceAll(sse(hello, counted, counted), "\n", "\r")+"\ndata: "+counted), 1)
	f.Add([]byte("data: {\"choices\":[],\ndata: \"usage\":{}}\n\nerror: {\"choices\":[],\"usage\":{}}\n\n"), 9)
	f.Add([]byte("\n\n: ping\n"+sse(counted)+"\r\n\ndata:{\"usage\":{},\"choices\":[ ]}\r\r"), 5)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		want := wanted(stream)
		for _, size := range []int{max(1, size), 1, len(stream) + 1} {
			if got := filtered(stream, size); got != want {
				t.Fatalf("in pieces of %d:\ngot  %q\nwant %q", size, got, want)
			}
		}
	})
}
