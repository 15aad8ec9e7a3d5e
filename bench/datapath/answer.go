package main

import (
	"bytes"
	"fmt"
	"strings"
)

// streamType and wholeType are the content types of the engine's answers.
const (
	streamType = "text/event-stream; charset=utf-8"
	wholeType  = "application/json"
)

// word is the text of the token with the given number: words of different length,
// so that events are of different length too.
func word(i int) string {
	return [...]string{" the", " a", " balance", " of", " work", " is", " kept", " by", " counting", " tokens"}[i%10]
}

const eventHead = `{"id":"chatcmpl-5d1f0a9c7be24c0e","object":"chat.completion.chunk","created":1772000000,"model":"bench","choices":`

// events returns an answer of so many tokens as an engine streams it: the role, the
// tokens, the finish reason, the usage, and the end marker, each a framed event.
func events(tokens int) [][]byte {
	frame := func(data string) []byte { return []byte("data: " + data + "\n\n") }
	choice := func(delta, reason string) []byte {
		return frame(eventHead + `[{"index":0,"delta":` + delta + `,"logprobs":null,"finish_reason":` + reason + `}]}`)
	}
	list := make([][]byte, 0, tokens+4)
	list = append(list, choice(`{"role":"assistant","content":""}`, "null"))
	for i := range tokens {
		list = append(list, choice(`{"content":"`+word(i)+`"}`, "null"))
	}
	return append(list,
		choice("{}", `"stop"`),
		frame(eventHead+`[],"usage":`+usage(tokens)+"}"),
		frame("[DONE]"))
}

// whole returns the same answer in one piece.
func whole(tokens int) []byte {
	var text strings.Builder
	for i := range tokens {
		text.WriteString(word(i))
	}
	return fmt.Appendf(nil, `{"id":"chatcmpl-5d1f0a9c7be24c0e","object":"chat.completion","created":1772000000,"model":"bench",`+
		`"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"logprobs":null,"finish_reason":"stop"}],"usage":%s}`,
		text.String(), usage(tokens))
}

func usage(tokens int) string {
	return fmt.Sprintf(`{"prompt_tokens":200,"total_tokens":%d,"completion_tokens":%d}`, 200+tokens, tokens)
}

// body is what a client must get for a request: the bytes of the answer, without
// the framing that HTTP puts around them.
func body(tokens int, stream bool) []byte {
	if stream {
		return bytes.Join(events(tokens), nil)
	}
	return whole(tokens)
}
