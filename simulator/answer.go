package simulator

import "strings"

// phrases are what a simulated model has to say. With its leading space each
// word is four bytes, one token, so that words appear one by one.
const phrases = "" +
	" you ask one bit and you see one new bit for it." +
	" any gpu can run hot but you pay not one fee for it." +
	" now the sun has set and the old cat can nap on." +
	" one fox and one dog ran far off and had pie for us."

// answer is the endless text that a server gives to a prompt; the same server
// says the same again to the same prompt.
type answer struct {
	intro string
	start int // where in the phrases it begins, in tokens
}

// newAnswer makes the text begin with who speaks, dotted out to whole tokens.
func newAnswer(name string, hash uint64) answer {
	intro := "This is " + name
	intro += strings.Repeat(".", bytesPerToken-len(intro)%bytesPerToken)
	// Begin at one of the phrases.
	var starts []int
	for i := 0; i < len(phrases); i += bytesPerToken {
		if i == 0 || phrases[i-1] == '.' {
			starts = append(starts, i/bytesPerToken)
		}
	}
	return answer{intro, starts[hash%uint64(len(starts))]}
}

// token returns the i-th token's text.
func (a answer) token(i int) string {
	at := i * bytesPerToken
	if at < len(a.intro) {
		return a.intro[at : at+bytesPerToken]
	}
	at = (at + (a.start * bytesPerToken) - len(a.intro)) % len(phrases)
	return phrases[at : at+bytesPerToken]
}

// text returns the first n tokens.
func (a answer) text(n int) string {
	var b strings.Builder
	b.Grow(n * bytesPerToken)
	for i := range n {
		b.WriteString(a.token(i))
	}
	return b.String()
}
