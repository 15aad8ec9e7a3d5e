package request

import (
	"bytes"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

var renameBodies = []struct {
	name, body, want string // want is empty where nothing can be done
}{
	{"plain", `{"model":"gpt-4o","stream":true}`, `{"model":"m","stream":true}`},
	{"odd spacing", " {\r\n\t\"model\" :\n \"gpt-4o\" ,\"a\" : [ ] }\n", " {\r\n\t\"model\" :\n \"m\" ,\"a\" : [ ] }\n"},
	{"escaped key", `{"mod\u0065l":"gpt-4o"}`, `{"mod\u0065l":"m"}`},
	{"escaped value", `{"model":"gpt\u002d4o\n\\"}`, `{"model":"m"}`},
	{"last", `{"a":1,"model":""}`, `{"a":1,"model":"m"}`},
	{"in a message", `{"messages":[{"content":"{\"model\":\"gpt-4o\"}"}],"model":"gpt-4o"}`, `{"messages":[{"content":"{\"model\":\"gpt-4o\"}"}],"model":"m"}`},
	{"in an object", `{"metadata":{"model":"gpt-4o"},"model":"gpt-4o","x":[{"model":"gpt-4o"}]}`, `{"metadata":{"model":"gpt-4o"},"model":"m","x":[{"model":"gpt-4o"}]}`},
	{"as a value", `{"a":"model","model":"gpt-4o","b":"model"}`, `{"a":"model","model":"m","b":"model"}`},
	{"numbers as they are", `{"seed":12345678901234567890123,"t":1.0e-07,"model":"gpt-4o","z":-0}`, `{"seed":12345678901234567890123,"t":1.0e-07,"model":"m","z":-0}`},
	{"text as it is", "{\"a\":\"\\u00fc<\u2028\xff\",\"model\":\"gpt-4o\"}", "{\"a\":\"\\u00fc<\u2028\xff\",\"model\":\"m\"}"},
	{"byte order mark", "\xEF\xBB\xBF{\"model\":\"gpt-4o\"}", "\xEF\xBB\xBF{\"model\":\"m\"}"},
	{"steering fields are judged elsewhere", `{"priority":1,"model":"a"}`, `{"priority":1,"model":"m"}`},

	{"nothing", ``, ``},
	{"no model", `{"prompt":"hi"}`, ``},
	{"a number", `{"model":123}`, ``},
	{"null", `{"model":null}`, ``},
	{"a list", `{"model":["gpt-4o"]}`, ``},
	{"no object", `["model","gpt-4o"]`, ``},
	{"broken behind it", `{"model":"gpt-4o","a":`, ``},
	{"something behind", `{"model":"gpt-4o"}{"model":"b"}`, ``},
	{"twice", `{"model":"gpt-4o","model":"b"}`, ``},
	{"twice, once in disguise", `{"model":"gpt-4o","m\u006fdel":"b"}`, ``},
	{"in another case", `{"Model":"gpt-4o"}`, ``},
	{"UTF-16", "{\x00\"\x00", ``},
}

// A request for another name of a model reaches the engine with the name that
// the engine knows, and is the client's in every other byte.
func TestRename(t *testing.T) {
	for _, c := range renameBodies {
		before := []byte(c.body)
		out, ok := Rename(before, "m")
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

// Any name can be written, and comes out as it was meant.
func TestRenameToAnyName(t *testing.T) {
	for _, name := range []string{"org/Llama-3.1-8B", `a"b\c`, "Ünï", "<&>", "a\nb", "\u2028", strings.Repeat("x", 5000)} {
		out, ok := Rename([]byte(`{"n":1,"model":"gpt-4o"}`), name)
		if f, err := Read(Chat, out, testOptions); !ok || err != nil || f.Model != name[:min(len(name), maxModel)] {
			t.Errorf("%.50q is written as %.80q and read as %.50q (%v)", name, out, f.Model, err)
		}
	}
}

// FuzzRename compares with a strict library wherever that reads the body: every
// member is there with the bytes it had, but for the model.
func FuzzRename(f *testing.F) {
	for _, c := range renameBodies {
		f.Add([]byte(c.body), "m")
	}
	for _, s := range seedBodies {
		f.Add([]byte(s), "org/name \"x\"\x00")
	}
	f.Fuzz(func(t *testing.T, body []byte, name string) {
		before := bytes.Clone(body)
		out, ok := Rename(body, name)
		if !bytes.Equal(before, body) {
			t.Fatal("the body given was changed")
		}
		var was map[string]jsontext.Value
		strict := json.Unmarshal(body, &was) == nil && was != nil
		if !ok {
			if !bytes.Equal(out, body) {
				t.Fatal("a body that was not understood was changed")
			}
			if strict && was["model"].Kind() == '"' {
				// Only what Read refuses besides: names twice or in another case,
				// and depth.
				if _, err := Read(Chat, body, &Options{MaxDepth: maxMaxDepth, AllowFields: allFields}); err == nil {
					t.Fatalf("%q has a model that was not changed", body)
				}
			}
			return
		}
		if !strict {
			return // we take a little more than the standard
		}
		var is map[string]jsontext.Value
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%q is broken: %v", out, err)
		}
		var got string
		if err := json.Unmarshal(is["model"], &got); err != nil || got != strings.ToValidUTF8(got, "\ufffd") {
			t.Fatalf("the model is %q (%v)", is["model"], err)
		}
		if jsontext.Value(quote(name)).IsValid() && got != string(bytes.ToValidUTF8([]byte(name), []byte("\ufffd"))) && !strings.Contains(got, "\ufffd") {
			t.Fatalf("the model is %q, want %q", got, name)
		}
		if len(was) != len(is) {
			t.Fatalf("%d members became %d", len(was), len(is))
		}
		for key, value := range was {
			if key != "model" && !bytes.Equal(value, is[key]) {
				t.Fatalf("%q was %q and is %q", key, value, is[key])
			}
		}
		// And nothing between the members either.
		if cut := len(body) - len(was["model"]); cut != len(out)-len(is["model"]) {
			t.Fatalf("%d bytes besides the model became %d", cut, len(out)-len(is["model"]))
		}
	})
}

// What is renamed is the model that was read.
func TestModelOf(t *testing.T) {
	for _, c := range renameBodies {
		got := ModelOf([]byte(c.body))
		out, ok := Rename([]byte(c.body), "m")
		if again := ModelOf(out); ok && again != "m" || !ok && (again != got || got != "") {
			t.Errorf("%s: the model was %q and is %q", c.name, got, again)
		}
	}
	if got := ModelOf([]byte(`{"model":" m\u0020"}`)); got != " m " {
		t.Errorf("a name with spaces is read as %q", got)
	}
}
