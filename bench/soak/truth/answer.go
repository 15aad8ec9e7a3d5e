package truth

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// Answer is what a client has read of an answer.
type Answer struct {
	// Generation is who made it, by its first piece; empty before.
	Generation string

	// Pieces is how many came, the end not counted.
	Pieces int

	// Broken is how many events were no JSON.
	Broken int

	// Whole says that the end piece came and told the truth, Finished that a
	// finish marker did, Done that [DONE] did, and Error that an error event did.
	Whole, Finished, Done, Error bool

	id     string
	next   int // the number of the piece that must come
	gaps   int // numbers that broken events stand for
	sum    uint64
	unsure bool // a piece is known to be missing, so the sum cannot be told
	lies   []Lie
}

// NewAnswer reads the answer to a request.
func NewAnswer(id string) *Answer { return &Answer{id: id} }

// chunk is what is read of an event, and of an answer that comes in one piece.
type chunk struct {
	Choices []struct {
		Delta        struct{ Content string }
		Message      struct{ Content string }
		FinishReason *string `json:"finish_reason"`
	}
	Error json.RawMessage
}

// Line takes a line of a stream, without its end.
func (a *Answer) Line(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data: "))
	switch {
	case len(line) == 0 || line[0] == ':':
		return
	case !ok:
		a.lie(Garbage, "a line of a stream is %q", short(string(line)))
		return
	case a.Done:
		a.lie(Doubled, "behind [DONE] comes %q", short(string(data)))
		return
	case string(data) == "[DONE]":
		a.Done = true
		return
	}
	var c chunk
	if json.Unmarshal(data, &c) != nil {
		a.Broken++
		a.gaps++
		return
	}
	a.take(c)
}

// Document takes an answer that came in one piece.
func (a *Answer) Document(body []byte) {
	var c chunk
	if err := json.Unmarshal(body, &c); err != nil {
		a.lie(CutSilently, "a document with a clean end is no JSON: %v", err)
		return
	}
	a.take(c)
	a.Done = true // a document has no other mark
}

func (a *Answer) take(c chunk) {
	if len(c.Error) > 0 && string(c.Error) != "null" {
		a.Error = true
		return
	}
	for _, choice := range c.Choices {
		for word := range strings.SplitSeq(choice.Delta.Content+choice.Message.Content, " ") {
			if word != "" {
				a.piece(word)
			}
		}
		if choice.FinishReason != nil {
			if a.Finished {
				a.lie(Doubled, "the finish marker came twice")
			}
			a.Finished = true
		}
	}
}

// piece takes a word of the answer.
func (a *Answer) piece(word string) {
	plain, _, _ := strings.Cut(word, "+")
	part := strings.Split(plain, "/")
	if len(part) != 3 && len(part) != 5 {
		a.lie(Garbage, "a piece is %q", short(word))
		return
	}
	if part[0] != a.id {
		a.lie(MixedUp, "a piece is of request %s", part[0])
		return
	}
	if a.Generation == "" {
		a.Generation = part[1]
	}
	if part[1] != a.Generation {
		a.lie(Spliced, "pieces of %s follow those of %s", part[1], a.Generation)
		return
	}
	if len(part) == 5 {
		a.end(part[3], part[4])
		return
	}
	n, err := strconv.Atoi(part[2])
	switch {
	case err != nil:
		a.lie(Garbage, "a piece is %q", short(word))
		return
	case n < a.next:
		a.lie(Doubled, "piece %d came again", n)
		return
	case n > a.next && n-a.next > a.gaps:
		a.lie(Missing, "piece %d came where %d was due", n, a.next)
		a.unsure = true
	case n > a.next:
		a.gaps -= n - a.next
		a.unsure = true
	}
	if a.Whole {
		a.lie(Doubled, "piece %d came behind the end", n)
	}
	a.next = n + 1
	a.Pieces++
	a.sum = add(a.sum, word+" ")
}

// end takes the piece that ends the answer.
func (a *Answer) end(count, sum string) {
	if a.Whole {
		a.lie(Doubled, "the end came twice")
	}
	a.Whole = true
	n, err := strconv.Atoi(count)
	if err != nil || n-a.next > a.gaps || n < a.next {
		a.lie(Missing, "%d pieces came, the end says %s", a.next, count)
		return
	}
	if n == a.next && !a.unsure && sum != fmt.Sprintf("%x", a.sum) {
		a.lie(Garbage, "the checksum is %x, the end says %s", a.sum, sum)
	}
}

// Lies are all that is wrong with the answer, whoever made it. Clean says that it
// ended in the way in which whole ones do.
func (a *Answer) Lies(clean bool) []Lie {
	lies := a.lies
	switch {
	case !clean || a.Error:
	case !a.Finished:
		lies = append(lies, Lie{CutSilently, fmt.Sprintf("a clean end after %d pieces without a finish marker", a.Pieces)})
	case !a.Whole:
		lies = append(lies, Lie{CutSilently, fmt.Sprintf("a finish marker after %d pieces, and no end among them", a.Pieces)})
	}
	return lies
}

// Complete says whether the answer is one that a client takes for whole.
func (a *Answer) Complete() bool { return a.Whole && a.Finished && !a.Error }

// maxLies bounds what is kept of one answer: the first tell what happened.
const maxLies = 8

func (a *Answer) lie(kind Kind, form string, args ...any) {
	if len(a.lies) < maxLies {
		a.lies = append(a.lies, Lie{kind, fmt.Sprintf(form, args...)})
	}
}

// short is the beginning of a text.
func short(text string) string {
	if len(text) > 120 {
		return text[:120] + "…"
	}
	return text
}
