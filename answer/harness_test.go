package answer

import "strings"

// The chunks of a small chat.
const (
	role    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`
	hello   = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]}`
	stop    = `{"id":"c-1","object":"chat.completion.chunk","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	counted = `{"id":"c-1","choices":[],"usage":{"prompt_tokens":412,"total_tokens":430,"completion_tokens":18,"prompt_tokens_details":{"cached_tokens":352}}}`
)

// sse makes a stream of events with the data given.
func sse(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		b.WriteString("data: " + d + "\n\n")
	}
	return b.String()
}
