package request

import (
	"errors"
	"strings"
	"testing"
)

func refusalOf(t *testing.T, body string, o *Options) *Refusal {
	t.Helper()
	_, err := Read(Chat, []byte(body), o)
	if err == nil {
		return nil
	}
	var r *Refusal
	if !errors.As(err, &r) {
		t.Fatalf("%s: error of type %T; want *Refusal", body, err)
	}
	return r
}

// A gateway that reads the first "model" while the engine runs the last lets
// anybody run any model. Spelling it differently must not help.
func TestReadRefusesDoubleFields(t *testing.T) {
	for _, c := range []struct{ body, field string }{
		{`{"model":"cheap","model":"secret","messages":[]}`, "model"},
		{`{"mod\u0065l":"cheap","model":"secret","messages":[]}`, "model"},
		{`{"model":"cheap","\u006D\u006F\u0064\u0065\u006C":"secret"}`, "model"},
		{`{"model":"cheap","Model":"secret"}`, "model"},
		{`{"model":"cheap","MOD\u0045L":"secret"}`, "model"},
		{`{"model":"same","model":"same"}`, "model"},
		{`{"model":null,"model":"secret"}`, "model"},
		{`{"messages":[],"x":{"a":[1,{"b":2}]},"messages":[]}`, "messages"},
		{`{"max_tokens":1,"Max_Tokens":100000}`, "max_tokens"},
		{`{"Max_Tokens":1,"MAX_TOKENS":2}`, "max_tokens"},
		{"{\"stream\":false,\"\u017Ftream\":true}", "stream"},      // long s
		{"{\"max_tokens\":1,\"max_to\u212Aens\":9}", "max_tokens"}, // Kelvin sign
		{`{"max_tokens":1,"max_to\u212aens":9}`, "max_tokens"},
		{`{"stream":true,"stream":true} trailing`, "stream"},
		{`{"stream":true,"stream":`, "stream"},
	} {
		if r := refusalOf(t, c.body, nil); r == nil || r.Field != c.field || r.Reason != reasonTwice {
			t.Errorf("%s: got %v; want a refusal of %q for standing there twice", c.body, r, c.field)
		}
	}
	for _, body := range []string{
		`{"temperature":1,"temperature":2}`,
		`{"model":"m","metadata":{"model":"a","model":"b"}}`,
		`{"model":"m","models":1,"mode":2,"model ":3,"":4}`,
		"{\"model\":\"m\",\"mod\xC3\xA9l\":1,\"mod\xFFl\":2}",
	} {
		if r := refusalOf(t, body, nil); r != nil {
			t.Errorf("%s: refused (%v), though no field of ours is double", body, r)
		}
	}
}

func TestReadRefusesModelInOtherCase(t *testing.T) {
	if r := refusalOf(t, `{"Model":"secret"}`, nil); r == nil || r.Reason != reasonCase {
		t.Errorf("got %v; want a refusal, since only some engines would read it", r)
	}
}

func TestReadRefusesSteering(t *testing.T) {
	for _, name := range SteeringFields() {
		for _, spelled := range []string{name, strings.ToUpper(name), `\u00` + hexOf(name[0]) + name[1:]} {
			body := `{"model":"m","` + spelled + `":1}`
			if r := refusalOf(t, body, nil); r == nil || r.Field != name || !r.Steering {
				t.Errorf("%s: got %v; want a refusal that names %q", body, r, name)
			}
		}
		if r := refusalOf(t, `{"model":"m","`+name+`":1}`, &Options{AllowFields: map[string]bool{name: true}}); r != nil {
			t.Errorf("%s: refused though allowed: %v", name, r)
		}
		if r := refusalOf(t, `{"`+name+`":1,"`+name+`":2}`, &Options{AllowFields: map[string]bool{name: true}}); r == nil || r.Reason != reasonTwice {
			t.Errorf("%s twice though allowed: got %v; want a refusal", name, r)
		}
		if r := refusalOf(t, `{"`+name+`":null}`, nil); r != nil {
			t.Errorf("%s: null steers nothing, yet refused: %v", name, r)
		}
	}
	// Python's parser takes NaN; a field behind it must not slip through.
	if r := refusalOf(t, `{"temperature":NaN,"x":-Infinity,"priority":-9}`, nil); r == nil {
		t.Error("a steering field behind NaN was not seen")
	}
	for _, name := range []string{"user", "metadata", "store", "service_tier", "seed", "session_id", "safety_identifier"} {
		if r := refusalOf(t, `{"`+name+`":"x"}`, nil); r != nil {
			t.Errorf("%s: refused: %v", name, r)
		}
	}
}

// Python engines guess UTF-16 and UTF-32 from the first bytes. What we cannot
// read there could be any model and any steering field.
func TestReadRefusesWideEncodings(t *testing.T) {
	utf16le := func(s string) (b []byte) {
		for _, c := range []byte(s) {
			b = append(b, c, 0)
		}
		return b
	}
	for _, body := range [][]byte{
		utf16le(`{"priority":1}`),
		append([]byte{0}, utf16le(`{"priority":1}`)...),
		append([]byte{0xFF, 0xFE}, utf16le(`{}`)...),
		append([]byte{0xFE, 0xFF, 0}, utf16le(`{}`)...),
		{0, 0, 0, '{', 0, 0, 0, '}'},
	} {
		if _, err := Read(Chat, body, nil); err == nil {
			t.Errorf("% X: read; want a refusal", body)
		}
	}
}

// Refusals are shown to clients and logged, where prompts must never be.
func TestRefusalTextHoldsNothingOfTheBody(t *testing.T) {
	const secret = "SECRET123"
	for _, body := range []string{
		`{"model":"` + secret + `","MODEL":"` + secret + `"}`,
		`{"priority":"` + secret + `"}`,
		`{"` + secret + `":` + strings.Repeat("[", 300),
		`{"messages":` + strings.Repeat("[", 300) + `"` + secret + `"`,
	} {
		r := refusalOf(t, body, nil)
		if r == nil {
			t.Fatalf("%s: not refused", body)
		}
		if text := r.Error(); strings.Contains(text, secret) || text == "" {
			t.Errorf("the refusal says %q", text)
		}
	}
}

func TestFieldNames(t *testing.T) {
	longest := 0
	for f := fieldNone + 1; f < fieldCount; f++ {
		if got := byName([]byte(f.String())); got != f {
			t.Errorf("byName(%q) = %d; want %d", f.String(), got, f)
		}
		longest = max(longest, len(f.String()))
	}
	if 6*longest != maxName {
		t.Errorf("maxName is %d; want %d", maxName, 6*longest)
	}
	var set fieldSet
	for f := fieldNone + 1; f < fieldCount; f++ {
		if set.has(f) {
			t.Errorf("%s is in a set that it was not put into", f)
		}
		set.add(f)
		if !set.has(f) {
			t.Errorf("%s is missing from the set", f)
		}
	}
	if len(Fields()) != int(fieldCount)-1 || len(SteeringFields()) != int(fieldCount-firstSteering) {
		t.Error("a field is missing from the exported lists")
	}
}

func hexOf(c byte) string {
	const digits = "0123456789abcdef"
	return string([]byte{digits[c>>4], digits[c&15]})
}
