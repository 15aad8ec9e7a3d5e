package llmlb

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// several is a pool of so many servers, a:1 and on.
func several(t *testing.T, n int) (*Pool, *Settings) {
	t.Helper()
	p := NewPool("models")
	var members []Member
	for i := range n {
		members = append(members, Member{Address: fmt.Sprintf("%c:1", 'a'+i)})
	}
	s := bound(t, p, members...)
	p.Start(s, t0)
	return p, s
}

// raws are entries as engines write them.
func raws(t *testing.T, entries ...string) (list []Model) {
	t.Helper()
	for _, e := range entries {
		var m struct{ ID string }
		if err := json.Unmarshal([]byte(e), &m); err != nil {
			t.Fatal(err)
		}
		list = append(list, Model{ID: m.ID, Raw: []byte(e)})
	}
	return list
}

// shown is a merged list in one line.
func shown(list []MergedModel) string {
	var b strings.Builder
	for _, m := range list {
		fmt.Fprintf(&b, "[%s", m.ID)
		for _, f := range m.Fields {
			fmt.Fprintf(&b, " %s=%s", f.Name, f.Value)
		}
		b.WriteString("]")
	}
	return b.String()
}

// A client sees each model of the pool once, with all that any server tells of
// it, and may send what every server of the model takes.
func TestModelsAreMerged(t *testing.T) {
	for _, tc := range []struct {
		name  string
		lists [][]string
		want  string
	}{
		{"one server", [][]string{{`{"id":"m","object":"model","x":{"a":[1, 2]}}`}}, `[m object="model" x={"a":[1, 2]}]`},
		{"in the order of servers", [][]string{{`{"id":"z"}`, `{"id":"m"}`}, {`{"id":"a"}`, `{"id":"m"}`}}, `[z][m][a]`},
		{"fields that one has", [][]string{{`{"id":"m","max_model_len":8192,"foo":"x"}`}, {`{"id":"m","bar":null}`, `{"id":"n"}`}}, `[m max_model_len=8192 foo="x" bar=null][n]`},
		{"fields that another has", [][]string{{`{"id":"m"}`}, {`{"id":"m","max_model_len":8192,"foo":12345678901234567890}`}}, `[m max_model_len=8192 foo=12345678901234567890]`},
		{"the first counts", [][]string{{`{"created":1,"id":"m","owned_by":"a"}`}, {`{"id":"m","owned_by":"b","created":2}`}}, `[m created=1 owned_by="a"]`},
		{"shorter prompts elsewhere", [][]string{{`{"id":"m","max_model_len":8192}`}, {`{"id":"m","max_model_len":4096}`}, {`{"id":"m","max_model_len":1e6}`}}, `[m max_model_len=4096]`},
		{"no length is no limit", [][]string{{`{"id":"m","max_model_len":null}`}, {`{"id":"m","max_model_len":4096}`}, {`{"id":"m","max_model_len":0}`}, {`{"id":"m","max_model_len":"9"}`}}, `[m max_model_len=4096]`},
		{"twice in one list", [][]string{{`{"id":"m","a":1}`, `{"id":"m","a":2,"b":3}`}}, `[m a=1 b=3]`},
		{"nothing", [][]string{{}, {}}, ``},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := several(t, len(tc.lists))
			for i, entries := range tc.lists {
				s.Members[i].Endpoint.ObserveModels(t0, raws(t, entries...))
			}
			list, known := p.MergedModels(s, t0)
			if got := shown(list); got != tc.want || !known {
				t.Errorf("%s (%v)\nwant %s", got, known, tc.want)
			}
		})
	}
}

// One server without a list harms nobody, and a list lasts as long as it is
// believed, whatever else becomes of its server.
func TestMergedModelsOfSomeServers(t *testing.T) {
	p, s := several(t, 3)
	if list, known := p.MergedModels(s, t0); known || list != nil {
		t.Errorf("before any list there is %s", shown(list))
	}
	a, b := s.Members[0].Endpoint, s.Members[1].Endpoint
	a.ObserveModels(t0, raws(t, `{"id":"m"}`))
	b.ObserveModels(at(100), append(raws(t, `{"id":"n:latest"}`), Model{ID: "n", Implied: true}, Model{ID: "bare"}))
	for range 3 {
		a.NotReached(at(100), "gone")
	}
	p.Lock()
	b.drain.set(&b.drain.configured, true, at(100))
	p.Unlock()
	for _, tc := range []struct {
		sec  float64
		want string
	}{
		{101, "[m][n:latest][bare]"},
		{modelsKeep.Seconds(), "[m][n:latest][bare]"},
		{modelsKeep.Seconds() + 1, "[n:latest][bare]"},
		{modelsKeep.Seconds() + 101, ""},
	} {
		list, known := p.MergedModels(s, at(tc.sec))
		if got := shown(list); got != tc.want || known != (tc.want != "") {
			t.Errorf("after %v s there is %q (%v), want %q", tc.sec, got, known, tc.want)
		}
	}
	if _, known := p.MergedModels(nil, t0); known {
		t.Error("a pool without settings has a list")
	}
}

// A list that has changed is seen at once, and one that has not costs nothing,
// however often it is asked for.
func TestMergedModelsAreKept(t *testing.T) {
	p, s := several(t, 2)
	a := s.Members[0].Endpoint
	a.ObserveModels(t0, raws(t, `{"id":"m","x":1}`))
	s.Members[1].Endpoint.ObserveModels(t0, raws(t, `{"id":"m","y":1}`))
	first, _ := p.MergedModels(s, t0)
	if n := testing.AllocsPerRun(100, func() { p.MergedModels(s, t0) }); n > 4 {
		t.Errorf("asking again takes %v allocations", n)
	}
	a.ObserveModels(at(30), raws(t, `{"id":"m","z":1}`))
	second, _ := p.MergedModels(s, at(30))
	if a, b := shown(first), shown(second); a != "[m x=1 y=1]" || b != "[m z=1 y=1]" {
		t.Errorf("was %s and is %s", a, b)
	}
}

// With dynamic upstreams the servers are those that were seen.
func TestMergedModelsOfDynamicServers(t *testing.T) {
	p := NewPool("dynamic")
	s := &Settings{Pool: "dynamic", Dynamic: true}
	p.Start(s, t0)
	p.Lock()
	e := p.Sight("a:1", t0)
	p.Unlock()
	e.ObserveModels(t0, raws(t, `{"id":"m"}`))
	if list, _ := p.MergedModels(s, t0); shown(list) != "[m]" {
		t.Errorf("there is %s, want m", shown(list))
	}
}

// Whatever an entry is, nothing but JSON comes out of it.
func FuzzEntry(f *testing.F) {
	for _, seed := range []string{`{"id":"m","max_model_len":8192}`, `{"a":{"id":1},"id":2,"b":[]}`, `[1]`, `{"a":`, `{"a" : 1 , "b":{}}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var all map[string]json.RawMessage
		valid := json.Unmarshal(raw, &all) == nil
		fields := fieldsOf(raw)
		for _, field := range fields {
			if !json.Valid(field.Value) {
				t.Fatalf("%q has the value %q", field.Name, field.Value)
			}
			if valid && all[field.Name] == nil {
				t.Fatalf("%q is not in %q", field.Name, raw)
			}
		}
		delete(all, "id")
		if valid && len(fields) < len(all) {
			t.Fatalf("%d fields of %q, want %d", len(fields), raw, len(all))
		}
	})
}

// What one server lacks is put into the pool's list, not into another server's.
func TestMergingChangesNoList(t *testing.T) {
	p, s := several(t, 2)
	a, b := s.Members[0].Endpoint, s.Members[1].Endpoint
	a.ObserveModels(t0, raws(t, `{"id":"m","max_model_len":8192}`))
	b.ObserveModels(t0, raws(t, `{"id":"m","max_model_len":4096,"own":1}`))
	if list, _ := p.MergedModels(s, t0); shown(list) != "[m max_model_len=4096 own=1]" {
		t.Errorf("with both it is %s", shown(list))
	}
	b.ObserveModels(at(30), nil)
	if list, _ := p.MergedModels(s, at(30)); shown(list) != "[m max_model_len=8192]" {
		t.Errorf("without the other it is %s", shown(list))
	}
}
