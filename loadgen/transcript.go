package loadgen

import (
	"bytes"
	"encoding/json"
	"strings"
)

// transcript collects the text of a stream, which the next turn repeats.
type transcript struct {
	text strings.Builder
	line []byte // not complete yet
}

// maxLine bounds one event, so that no server can fill our memory.
const maxLine = 1 << 20

func (t *transcript) observe(b []byte) {
	for {
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		if len(t.line)+len(line) <= maxLine {
			t.line = append(t.line, line...)
		}
		if !whole {
			return
		}
		t.event(t.line)
		t.line, b = t.line[:0], rest
	}
}

func (t *transcript) event(line []byte) {
	data, ok := bytes.CutPrefix(line, []byte("data:"))
	if !ok {
		return
	}
	var chunk struct {
		Choices []struct {
			Text  string `json:"text"`
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	if json.Unmarshal(data, &chunk) != nil || len(chunk.Choices) == 0 {
		return // [DONE], usage, or nothing that we read
	}
	t.text.WriteString(chunk.Choices[0].Text)
	t.text.WriteString(chunk.Choices[0].Delta.Content)
}
