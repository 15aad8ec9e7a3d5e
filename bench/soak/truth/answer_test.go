package truth

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// stream writes a stream of five pieces, as an honest server does: the role, the
// pieces, the end, the finish marker, [DONE].
func stream(id, generation string) []string {
	s := NewScript(id, generation)
	lines := []string{`data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`}
	for range 5 {
		lines = append(lines, content(s.Next(0)))
	}
	return append(lines, content(s.End()), `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}`, "data: [DONE]")
}

func content(text string) string {
	return fmt.Sprintf(`data: {"choices":[{"delta":{"content":"%s"}}]}`, text)
}

func read(id string, lines []string) *Answer {
	a := NewAnswer(id)
	for _, line := range lines {
		a.Line([]byte(line))
		a.Line(nil)
	}
	return a
}

// kinds are the ways in which something is wrong, each once.
func kinds(lies []Lie) string {
	var all []string
	for _, l := range lies {
		if !slices.Contains(all, string(l.Kind)) {
			all = append(all, string(l.Kind))
		}
	}
	return strings.Join(all, ", ")
}

// Each thing that a gateway could do to a stream is seen for what it is.
func TestAnswerTellsEachLie(t *testing.T) {
	other, second := stream("r2", "b-1"), stream("r1", "b-1")
	for _, tc := range []struct {
		name  string
		do    func(lines []string) []string
		clean bool
		want  string
	}{
		{"as it was sent", func(l []string) []string { return l }, true, ""},
		{"comments between", func(l []string) []string { return slices.Insert(l, 3, ": still here") }, true, ""},
		{"a broken event", func(l []string) []string { l[3] = l[3][:20]; return l }, true, ""},
		{"cut, and visibly so", func(l []string) []string { return l[:4] }, false, ""},
		{"cut before [DONE], which the server may have left out", func(l []string) []string { return l[:8] }, true, ""},
		{"an error event at the end", func(l []string) []string { return append(l[:4], `data: {"error":{"message":"cut"}}`) }, true, ""},

		{"an event twice", func(l []string) []string { return slices.Insert(l, 3, l[2]) }, true, "doubled"},
		{"an event twice, later", func(l []string) []string { return slices.Insert(l, 6, l[2]) }, true, "doubled"},
		{"the end twice", func(l []string) []string { return slices.Insert(l, 7, l[6]) }, true, "doubled"},
		{"the finish marker twice", func(l []string) []string { return slices.Insert(l, 7, l[7]) }, true, "doubled"},
		{"[DONE] twice", func(l []string) []string { return append(l, l[8]) }, true, "doubled"},
		{"an event behind the end", func(l []string) []string { return slices.Insert(l, 7, content("r1/a-1/5 ")) }, true, "doubled"},
		{"all of it twice", func(l []string) []string { return append(l, l...) }, true, "doubled"},
		{"an event missing", func(l []string) []string { return slices.Delete(l, 3, 4) }, true, "missing"},
		{"the last event missing", func(l []string) []string { return slices.Delete(l, 5, 6) }, true, "missing"},
		{"two missing, one broken", func(l []string) []string { l[3] = "data: {"; return slices.Delete(l, 4, 6) }, true, "missing"},
		{"two the wrong way round", func(l []string) []string { l[3], l[4] = l[4], l[3]; return l }, true, "missing, doubled"},
		{"another client's event", func(l []string) []string { return slices.Insert(l, 3, other[3]) }, true, "mixed up"},
		{"another client's answer", func([]string) []string { return other }, true, "mixed up, cut silently"},
		{"begun by one server and ended by another", func(l []string) []string { return append(l[:3], second[3:]...) }, true, "spliced, cut silently"},
		{"begun by one server, and all of another's", func(l []string) []string { return append(l[:3], second...) }, true, "spliced, cut silently"},
		{"a clean end after three events", func(l []string) []string { return l[:4] }, true, "cut silently"},
		{"a clean end before the finish marker", func(l []string) []string { return l[:7] }, true, "cut silently"},
		{"a finish marker in place of the rest", func(l []string) []string { return append(l[:4], l[7:]...) }, true, "cut silently"},
		{"nothing, and a clean end", func([]string) []string { return nil }, true, "cut silently"},
		{"a changed piece", func(l []string) []string { l[3] = strings.Replace(l[3], "/2 ", "/2+xxx ", 1); return l }, true, "garbage"},
		{"a line that is none", func(l []string) []string { return slices.Insert(l, 3, "HTTP/1.1 200 OK") }, true, "garbage"},
		{"half a line at the end", func(l []string) []string { return append(l[:8], "dat") }, true, "garbage"},
		{"other text", func(l []string) []string { return slices.Insert(l, 3, content("hello ")) }, true, "garbage"},
	} {
		a := read("r1", tc.do(stream("r1", "a-1")))
		if got := kinds(a.Lies(tc.clean)); got != tc.want {
			t.Errorf("%s: %q, want %q: %v", tc.name, got, tc.want, a.Lies(tc.clean))
		}
	}
}

// An answer in one piece is read by the same rules.
func TestDocumentTellsEachLie(t *testing.T) {
	s := NewScript("r1", "a-1")
	text := s.Next(0) + s.Next(40) + s.Next(0)
	document := func(text string) string {
		return fmt.Sprintf(`{"choices":[{"message":{"content":"%s"},"finish_reason":"stop"}]}`, text)
	}
	whole := text + s.End()
	for _, tc := range []struct{ name, body, want string }{
		{"as it was sent", document(whole), ""},
		{"an error", `{"error":{"message":"no"}}`, ""},
		{"half of it", document(whole)[:60], "cut silently"},
		{"nothing", "", "cut silently"},
		{"twice", document(whole) + document(whole), "cut silently"},
		{"without its end", document(text), "cut silently"},
		{"text twice", document(text + whole), "doubled"},
		{"a word missing", document(s.id + "/a-1/0 " + s.End()), "missing"},
		{"another's", document(strings.ReplaceAll(whole, "r1/", "r2/")), "mixed up, cut silently"},
	} {
		a := NewAnswer("r1")
		a.Document([]byte(tc.body))
		if got := kinds(a.Lies(true)); got != tc.want {
			t.Errorf("%s: %q, want %q: %v", tc.name, got, tc.want, a.Lies(true))
		}
	}
}

// A long row of lies is told by its beginning.
func TestAnswerKeepsFewLies(t *testing.T) {
	a := NewAnswer("r1")
	for range 1000 {
		a.Line([]byte("nonsense"))
	}
	if n := len(a.Lies(false)); n != maxLies {
		t.Errorf("%d lies are kept, want %d", n, maxLies)
	}
}
