package request

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func always(string) bool { return true }

// sampling returns options that ask for a sample, with the vocabulary there.
func sampling(tb testing.TB) *Options {
	tb.Helper()
	keepVocabulary(tb)
	o := *testOptions
	o.Sample = always
	return &o
}

// completion writes a body with the text as its prompt. With ascii everything else
// is escaped, as Python's json does by default.
func completion(text string, ascii bool) []byte {
	quoted, _ := json.Marshal(text)
	if ascii {
		var b strings.Builder
		for _, r := range string(quoted) {
			switch {
			case r < 0x80:
				b.WriteRune(r)
			case r < 0x10000:
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				r -= 0x10000
				fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
			}
		}
		quoted = []byte(b.String())
	}
	return append(append([]byte(`{"model":"m","prompt":`), quoted...), '}')
}

// estimated returns how many tokens a prompt is thought to have when nothing is
// known of its model.
func estimated(t *testing.T, api string, body []byte, o *Options) int {
	t.Helper()
	f, err := Read(api, body, o)
	if err != nil || f.Opaque {
		t.Fatalf("reading: %v, opaque %v", err, f.Opaque)
	}
	p := llmlb.NewPool("sample")
	c := &llmlb.Call{Features: f, Pool: p}
	p.Calibrate(c)
	return c.InputTokens
}

// A prompt's length in tokens is known within a fifth from a kilobyte of it, in
// whatever language it is and however its characters are escaped.
func TestSampledLength(t *testing.T) {
	o := sampling(t)
	count := tokenCounter()
	for _, kind := range texts {
		for _, ascii := range []bool{false, true} {
			for seed := range uint64(3) {
				text := kind.write(rand.New(rand.NewPCG(seed, 1)), 64<<10)
				body := completion(text, ascii)
				// Beyond the bound, as with Cyrillic letters of six bytes each,
				// the estimate is what the bound makes it.
				want := max(count(text), (len(body)-len(`{"model":"m","prompt":""}`))/maxRatio)
				got := estimated(t, Completions, body, o)
				off := float64(got)/float64(want) - 1
				if math.Abs(off) > 0.2 {
					t.Errorf("%s, escaped %v: %d tokens estimated of %d (%+.0f %%)", kind.name, ascii, got, want, 100*off)
				}
			}
		}
	}
}

// Prompts are mixed: prose in two languages, a file of code, rows of JSON, a
// certificate.
func TestSampledLengthOfMixedText(t *testing.T) {
	o := sampling(t)
	count := tokenCounter()
	var mix []func(*rand.Rand, int) string
	for _, kind := range texts {
		switch kind.name {
		case "English", "Chinese", "code", "JSON", "base64":
			mix = append(mix, kind.write)
		}
	}
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var b strings.Builder
		for b.Len() < 64<<10 {
			b.WriteString(mix[rng.IntN(len(mix))](rng, 200+rng.IntN(4000)))
		}
		want := count(b.String())
		got := estimated(t, Completions, completion(b.String(), false), o)
		if off := float64(got)/float64(want) - 1; math.Abs(off) > 0.2 {
			t.Errorf("mixture %d: %d tokens estimated of %d (%+.0f %%)", seed, got, want, 100*off)
		}
	}
}

// Pictures make a body a thousand times as long as its text is: the text is
// sampled to its end all the same, and nothing of the pictures.
func TestPicturesAreNotSampled(t *testing.T) {
	o := sampling(t)
	rng := rand.New(rand.NewPCG(5, 5))
	picture := `{"type":"image_url","image_url":{"url":"data:image/png;base64,` + base64Lines(rng, 1<<20) + `"}}`
	words, _ := json.Marshal(sentences(russian, " ", ". ")(rng, 8<<10))
	of := func(parts ...string) float64 {
		f, err := Read(Chat, []byte(`{"messages":[{"role":"user","content":[`+strings.Join(parts, ",")+`]}]}`), o)
		if err != nil {
			t.Fatal(err)
		}
		return f.Ratio
	}
	text := `{"type":"text","text":` + string(words) + `}`
	plain := of(text)
	for name, got := range map[string]float64{"before": of(picture, text), "behind": of(text, picture), "around": of(picture, text, picture)} {
		if got != plain {
			t.Errorf("picture %s: %v bytes per token, want %v as without", name, got, plain)
		}
	}
}

// Token ids are counted already, and what is short is sampled whole.
func TestWhatIsSampled(t *testing.T) {
	o := sampling(t)
	count := tokenCounter()
	const hello = "Hello, world! How are you?"
	for _, tc := range []struct {
		name, api, body string
		want            float64
	}{
		{"short", Completions, `{"prompt":"` + hello + `"}`, float64(len(hello)) / float64(count(hello))},
		{"empty", Completions, `{"prompt":""}`, 0},
		{"none", Completions, `{}`, 0},
		{"token ids", Completions, `{"prompt":[1,2,3,4,5,6,7,8]}`, 0},
		{"token ids and text", Completions, `{"prompt":[1,2,3,"` + hello + `",4,5,6,7,8]}`, float64(len(hello)) / float64(count(hello))},
		{"a picture", Chat, `{"messages":[{"content":[{"type":"image_url","image_url":{"url":"data:,x"}}]}]}`, 0},
		{"broken", Completions, `{"prompt":"` + hello, 0},
		{"many tokens of few bytes", Completions, `{"prompt":"` + strings.Repeat("\x01", 60) + `"}`, 1},
		{"few tokens of many bytes", Completions, `{"prompt":"` + strings.Repeat(`\u0020`, 900) + `"}`, 12},
	} {
		f, err := Read(tc.api, []byte(tc.body), o)
		if err != nil || f.Ratio != tc.want {
			t.Errorf("%s: %v bytes per token, want %v (%v)", tc.name, f.Ratio, tc.want, err)
		}
	}
}

// Who does not ask gets no sample, and all else is the same with one.
func TestSampleChangesNothingElse(t *testing.T) {
	o := sampling(t)
	asked := ""
	for _, size := range []int{500, 5000, 50_000} {
		body := chatBody(size)
		o.Sample = func(model string) bool { asked = model; return true }
		with, _ := Read(Chat, body, o)
		o.Sample = func(string) bool { return false }
		without, _ := Read(Chat, body, o)
		o.Sample = nil
		never, _ := Read(Chat, body, o)
		if with.Ratio == 0 || without.Ratio != 0 || never.Ratio != 0 {
			t.Errorf("%d bytes: ratio %v when wanted, %v when not, %v when nobody asks", size, with.Ratio, without.Ratio, never.Ratio)
		}
		if asked != with.Model {
			t.Errorf("asked of model %q, want %q", asked, with.Model)
		}
		with.Ratio = 0
		if !reflect.DeepEqual(with, without) || !reflect.DeepEqual(with, never) {
			t.Errorf("%d bytes: sampling changed more than the ratio", size)
		}
	}
}

// The pieces lie at even distances over all of the text, however it comes, and are
// all of a short one.
func TestPiecesCoverTheText(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for _, length := range []int{0, 1, 255, 256, 257, 1000, 1024, 1025, 2048, 2049, 5000, 65_536, 1_000_003} {
		text := make([]byte, length)
		for i := range text {
			text[i] = byte('a' + i/samplePiece%26)
		}
		s := newSample(nil)
		for rest := text; len(rest) > 0; {
			n := min(len(rest), 1+rng.IntN(3000))
			s.write(rest[:n])
			rest = rest[n:]
		}
		n := s.taken()
		if n > sampleKept || length > samplePieces*samplePiece && n < samplePieces {
			t.Fatalf("%d bytes: %d pieces", length, n)
		}
		got := 0
		for i := range n {
			from := i * s.stride
			p := s.piece(i)
			if string(p) != string(text[from:min(from+samplePiece, length)]) {
				t.Errorf("%d bytes: piece %d is not the text at %d", length, i, from)
			}
			got += len(p)
		}
		if length <= samplePieces*samplePiece && got != length {
			t.Errorf("%d bytes of %d sampled", got, length)
		}
		if n > 1 && n*s.stride < length {
			t.Errorf("%d bytes: nothing is sampled behind %d", length, n*s.stride)
		}
	}
}

// Where a piece is cut in the middle of a character, the rest of it is left out.
func TestClip(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"", ""},
		{"plain text", "plain text"},
		{"\xa0\x80 end", " end"},
		{"text \xe4\xbd", "text "},
		{"text 你", "text 你"},
		{"text \xf0\x9f\x98", "text "},
		{`4f60\u597d`, `\u597d`},
		{`u4f60\u597d`, `\u597d`},
		{`f\u597d`, `\u597d`},
		{`face it`, `face it`},
		{`\u4f60\u59`, `\u4f60`},
		{`\u4f60\u`, `\u4f60`},
		{`\u4f60\`, `\u4f60`},
		{`a\\`, `a\\`},
		{`a\\\`, `a\\`},
		{`a\\u12`, `a\\u12`},
		{`a\\\u12`, `a\\`},
		{`line\n`, `line\n`},
		{`say \"`, `say \"`},
		{`\ude00 ok`, ` ok`},
		{`00\ude00 ok`, ` ok`},
		{`ok \ud83d`, `ok `},
		{`ok \ud83d\ude`, `ok `},
		{`ok \ud83d\ude00`, `ok \ud83d\ude00`},
		{"\x80\x80\x80\x80", "\x80"},
	} {
		if got := string(clip([]byte(tc.in))); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.in, got, tc.want)
		}
	}
}

// keepVocabulary has the vocabulary there, and it stays.
func keepVocabulary(tb testing.TB) {
	tb.Helper()
	vocabulary.mu.Lock()
	vocabulary.wanted = true // so that no request loads it, and nobody lets it go
	vocabulary.mu.Unlock()
	vocabulary.ready.Store(oneVocabulary())
	if tokenCounter() == nil {
		tb.Fatal("the vocabulary cannot be loaded")
	}
}

var oneVocabulary = sync.OnceValue(newVocabulary)

// forgetVocabulary makes the process as it was when it began, for one test.
func forgetVocabulary(t *testing.T) {
	t.Helper()
	forget := func() {
		vocabulary.mu.Lock()
		defer vocabulary.mu.Unlock()
		vocabulary.wanted, vocabulary.hopeless, vocabulary.notUntil = false, false, time.Time{}
		vocabulary.ready.Store(nil)
	}
	forget()
	t.Cleanup(forget)
}

// The vocabulary is loaded when a request first needs it, and no request waits for
// that: until it is there, prompts are estimated as without. When nobody has needed
// it for a while it goes, and comes back when somebody does.
func TestVocabularyIsLoadedAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forgetVocabulary(t)
		o := *testOptions
		ratio := func(want bool) float64 {
			o.Sample = func(string) bool { return want }
			f, err := Read(Completions, []byte(`{"prompt":"Hello, world!"}`), &o)
			if err != nil {
				t.Fatal(err)
			}
			return f.Ratio
		}
		ratio(false)
		synctest.Wait()
		if vocabulary.ready.Load() != nil {
			t.Fatal("loaded though no request needed it")
		}
		if r := ratio(true); r != 0 {
			t.Errorf("the first request waited for its ratio of %v", r)
		}
		synctest.Wait()
		if vocabulary.ready.Load() == nil {
			t.Fatal("not loaded once a request needed it")
		}
		if r := ratio(true); r == 0 {
			t.Error("no ratio once the vocabulary is there")
		}
		for range 5 { // each use keeps it
			time.Sleep(vocabularyIdle - time.Second)
			if r := ratio(true); r == 0 {
				t.Error("it has gone while it was in use")
			}
		}
		for range 3 { // what needs no sample does not
			time.Sleep(vocabularyIdle)
			ratio(false)
		}
		if vocabulary.ready.Load() != nil {
			t.Error("it stays though nobody needs it")
		}
		ratio(true)
		synctest.Wait()
		if r := ratio(true); r == 0 {
			t.Error("no ratio once it is needed again")
		}
		// What comes too rarely to be counted does not have it loaded each time.
		time.Sleep(3 * vocabularyIdle)
		ratio(true)
		for loads := 0; ; loads++ {
			time.Sleep(3 * vocabularyIdle)
			if vocabulary.ready.Load() != nil {
				t.Fatal("it stays though nobody needs it")
			}
			if ratio(true); loads > 3 {
				break
			}
			if synctest.Wait(); vocabulary.ready.Load() != nil {
				t.Fatal("loaded again at once though it was loaded for nothing")
			}
		}
		time.Sleep(vocabularyPause)
		ratio(true)
		synctest.Wait()
		if vocabulary.ready.Load() == nil {
			t.Error("not loaded after the pause")
		}
		time.Sleep(3 * vocabularyIdle)
	})
}

// What is counted is what the library counts that knows the vocabulary by name.
func TestVocabularyCountsAsTheLibrary(t *testing.T) {
	tiktoken.SetBpeLoader(loader.NewOfflineLoader())
	want, err := tiktoken.GetEncoding(tiktoken.MODEL_O200K_BASE)
	if err != nil {
		t.Fatal(err)
	}
	count := counterOf(oneVocabulary())
	for _, s := range worstTexts() {
		text := s.text[:min(len(s.text), 4<<10)]
		if got, want := count(text), len(want.EncodeOrdinary(text)); got != want || got == 0 {
			t.Errorf("%s: %d tokens, want %d", s.name, got, want)
		}
	}
}

// A library that stumbles over somebody's text must not end the request.
func TestTokenizerThatPanics(t *testing.T) {
	if n := counterOf(nil)("text"); n != 0 {
		t.Errorf("%d tokens, want none", n)
	}
}

// FuzzSample asks that the ratio is a number within bounds for any text, cut
// anywhere, and that no more of it is counted than is documented.
func FuzzSample(f *testing.F) {
	o := sampling(f)
	for _, s := range worstTexts() {
		f.Add([]byte(s.text), 300)
	}
	f.Add([]byte(`\ud83d\ude00\u4f60\\\"`), 3)
	f.Fuzz(func(t *testing.T, text []byte, chunk int) {
		seen := 0
		count := tokenCounter()
		s := newSample(func(text string) int {
			if len(text) > samplePiece {
				t.Fatalf("%d bytes counted at once", len(text))
			}
			seen += len(text)
			return count(text)
		})
		for rest := text; len(rest) > 0; {
			n := min(len(rest), max(1, chunk))
			s.write(rest[:n])
			rest = rest[n:]
		}
		ratio := s.ratio()
		if seen > samplePieces*samplePiece {
			t.Fatalf("%d bytes counted", seen)
		}
		if ratio != 0 && !(ratio >= minRatio && ratio <= maxRatio) {
			t.Fatalf("%v bytes per token", ratio)
		}
		for _, api := range []string{Chat, Completions} {
			if f, err := Read(api, text, o); err == nil && f.Ratio != 0 && !(f.Ratio >= minRatio && f.Ratio <= maxRatio) {
				t.Fatalf("%v bytes per token", f.Ratio)
			}
		}
	})
}
