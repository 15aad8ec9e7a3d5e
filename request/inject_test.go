package request

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

var usageBodies = []struct {
	name, body, want string // want is empty where nothing can be done
}{
	{"absent", `{"model":"m","stream":true}`, `{"model":"m","stream":true,"stream_options":{"include_usage":true}}`},
	{"nothing in it", `{}`, `{"stream_options":{"include_usage":true}}`},
	{"space", " {\n \"a\" : [1, 2] \n}\r\n", " {\n \"a\" : [1, 2] \n,\"stream_options\":{\"include_usage\":true}}\r\n"},
	{"space in nothing", "{ \n }", "{ \n \"stream_options\":{\"include_usage\":true}}"},
	{"null", `{"stream_options": null ,"a":1}`, `{"stream_options": {"include_usage":true} ,"a":1}`},
	{"empty options", `{"stream_options":{ },"a":1}`, `{"stream_options":{ "include_usage":true},"a":1}`},
	{"other options", `{"stream_options":{"include_obfuscation":false }}`, `{"stream_options":{"include_obfuscation":false ,"include_usage":true}}`},
	{"false", `{"stream_options":{"include_usage":false,"x":{"include_usage":false}}}`, `{"stream_options":{"include_usage":true,"x":{"include_usage":false}}}`},
	{"null inside", `{"stream_options":{"x":1,"include_usage" : null}}`, `{"stream_options":{"x":1,"include_usage" : true}}`},
	{"already", `{"stream_options":{"include_usage":true}}`, `{"stream_options":{"include_usage":true}}`},
	{"escaped names", `{"stream\u005foptions":{"include\u005fusage":false}}`, `{"stream\u005foptions":{"include\u005fusage":true}}`},
	{"text that looks like it", `{"a":"{\"stream_options\":{}}\\","b":{"stream_options":null}}`, `{"a":"{\"stream_options\":{}}\\","b":{"stream_options":null},"stream_options":{"include_usage":true}}`},
	{"byte order mark", "\xEF\xBB\xBF{\"a\":1}", "\xEF\xBB\xBF{\"a\":1,\"stream_options\":{\"include_usage\":true}}"},
	{"steering fields are judged elsewhere", `{"priority":1}`, `{"priority":1,"stream_options":{"include_usage":true}}`},

	{"nothing", ``, ``},
	{"no object", `[]`, ``},
	{"broken", `{"a":1`, ``},
	{"something behind", `{"a":1}x`, ``},
	{"UTF-16", "{\x00}\x00", ``},
	{"options of another type", `{"stream_options":true}`, ``},
	{"a list of options", `{"stream_options":[{"include_usage":false}]}`, ``},
	{"usage of another type", `{"stream_options":{"include_usage":"yes"}}`, ``},
	{"options twice", `{"stream_options":null,"stream_options":{}}`, ``},
	{"usage twice", `{"stream_options":{"include_usage":true,"include_usage":false}}`, ``},
	{"options in another case", `{"Stream_Options":{}}`, ``},
	{"usage in another case", `{"stream_options":{"Include_Usage":false}}`, ``},
	{"too deep", strings.Repeat(`{"a":`, 2000) + "1" + strings.Repeat("}", 2000), ``},
}

// The client's stream ends with usage, and nothing else about the request is
// another than it was.
func TestInjectUsage(t *testing.T) {
	for _, c := range usageBodies {
		before := []byte(c.body)
		out, ok := InjectUsage(before)
		want := c.want
		if want == "" {
			want = c.body
		}
		if ok != (c.want != "") || string(out) != want {
			t.Errorf("%s: %.200q, %v; want %.200q", c.name, out, ok, want)
		}
		if string(before) != c.body {
			t.Errorf("%s: the body given was changed", c.name)
		}
	}
}

// FuzzInjectUsage compares with the standard library wherever that reads the
// body: the same value but for the one option.
func FuzzInjectUsage(f *testing.F) {
	for _, c := range usageBodies {
		f.Add([]byte(c.body))
	}
	for _, s := range seedBodies {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		before := bytes.Clone(body)
		out, ok := InjectUsage(body)
		if !bytes.Equal(before, body) {
			t.Fatal("the body given was changed")
		}
		if !ok {
			if !bytes.Equal(out, body) {
				t.Fatal("a body that was not understood was changed")
			}
			return
		}
		if again, ok := InjectUsage(out); !ok || !bytes.Equal(again, out) {
			t.Fatalf("a second time gives %q, %v; want what the first gave: %q", again, ok, out)
		}
		var r reading
		if whole, refusal := r.top(Chat, out, &Options{MaxDepth: maxMaxDepth, AllowFields: allFields}); !whole || refusal != nil || !r.streamUsage() {
			t.Fatalf("%q does not ask for usage to our own eyes", out)
		}
		if !json.Valid(body) {
			return // we take a little more than the standard
		}
		if !json.Valid(out) {
			t.Fatalf("%q is broken", out)
		}
		if !jsontext.Value(body).IsValid(jsontext.AllowInvalidUTF8(true)) {
			return // double names: maps cannot show them
		}
		var was, is map[string]json.RawMessage
		var wasOptions, isOptions map[string]json.RawMessage
		if json.Unmarshal(body, &was) != nil || json.Unmarshal(out, &is) != nil ||
			json.Unmarshal(is["stream_options"], &isOptions) != nil || string(isOptions["include_usage"]) != "true" {
			t.Fatalf("%q does not ask for usage", out)
		}
		_ = json.Unmarshal(was["stream_options"], &wasOptions)
		for _, m := range []map[string]json.RawMessage{was, is} {
			delete(m, "stream_options")
		}
		delete(wasOptions, "include_usage")
		delete(isOptions, "include_usage")
		if !reflect.DeepEqual(was, is) || len(wasOptions)+len(isOptions) > 0 && !reflect.DeepEqual(wasOptions, isOptions) {
			t.Fatalf("%q\nbecame\n%q", body, out)
		}
	})
}
