package request

import (
	"math/rand/v2"
	"strings"
	"testing"
)

type worstText struct{ name, text string }

// worstTexts are a kilobyte each of what costs the tokenizer most: what it cannot
// split, what it splits at every character, and what its expression goes back over.
func worstTexts() []worstText {
	of := func(unit string) string { return strings.Repeat(unit, 1024/len(unit)+1)[:1024] }
	rng := rand.New(rand.NewPCG(3, 3))
	random, runes := make([]byte, 1024), []rune{}
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	for range 300 {
		runes = append(runes, rune(rng.IntN(0x110000)))
	}
	return []worstText{
		{"spaces", of(" ")},
		{"spaces and a letter", of(" ")[1:] + "x"},
		{"one letter", of("a")},
		{"one capital", of("A")},
		{"capitals in turns", of("Aa")},
		{"words of one letter", of("A ")},
		{"letters and stops", of("a.")},
		{"lines and letters", of("\nǅ")},
		{"digits", of("7")},
		{"quotes", of("'l")},
		{"emoji", of("😀")},
		{"joined emoji", of("👩‍👩‍👧‍👦")},
		{"flags", of("🇩")},
		{"combining marks", of("Z\u0300\u0301\u0302")},
		{"one mark", of("\u0301")},
		{"rare ideograms", of("龘")},
		{"hieroglyphs", of("7𓀀")},
		{"zero bytes", of("\x00")},
		{"no UTF-8", of("\xff")},
		{"little UTF-8", of("\u00a0\xff\u00a0")},
		{"tabs and slashes", of("\t/\t//\t////")},
		{"random bytes", string(random)},
		{"random characters", string(runes)},
	}
}

// BenchmarkSample counts the sample of a prompt. However a prompt was made, this
// must stay below 2 ms.
func BenchmarkSample(b *testing.B) {
	sampling(b)
	count := tokenCounter()
	run := func(name, text string) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newSample(count)
				s.write([]byte(text))
				s.ratio()
			}
		})
	}
	for _, k := range texts {
		run("text/"+k.name, k.write(rand.New(rand.NewPCG(1, 1)), 64<<10))
	}
	for _, w := range worstTexts() {
		run("worst/"+w.name, w.text)
	}
}

// BenchmarkReadSampled is BenchmarkRead with a sample of the prompt.
func BenchmarkReadSampled(b *testing.B) {
	o := sampling(b)
	for _, c := range benchSizes {
		body := chatBody(c.size)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if f, err := Read(Chat, body, o); err != nil || f.Ratio == 0 {
					b.Fatal(f, err)
				}
			}
		})
	}
}

// BenchmarkVocabulary loads the vocabulary anew, as it is when a request needs it
// that is not there.
func BenchmarkVocabulary(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if newVocabulary() == nil {
			b.Fatal("it cannot be loaded")
		}
	}
}

// To be asked whether a sample is wanted costs a request nothing to speak of.
func TestAskingForASampleAllocates(t *testing.T) {
	o := &Options{Seed: 1, AffinityKey: 2, Sample: func(string) bool { return false }}
	body := chatBody(32 << 10)
	if n := testing.AllocsPerRun(20, func() { _, _ = Read(Chat, body, o) }); n > 2 {
		t.Errorf("%v allocations; want at most 2, for the model's name and the blocks", n)
	}
}
