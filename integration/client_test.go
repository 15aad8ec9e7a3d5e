package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// preamble is a system message of 400 words, which the simulator counts as so
// many tokens. It names no two blocks alike, so only the very same text hits.
var preamble = func() string {
	words := make([]string, 400)
	for i := range words {
		words[i] = fmt.Sprintf("rule%d", i)
	}
	return strings.Join(words, " ")
}()

// reply is a streamed chat completion that came to its end.
type reply struct {
	pod      string // which simulator served
	decision string // why the gateway chose it; empty without a gateway
	text     string
	prompt   int64 // prompt tokens
	cached   int64 // those of them that the simulator had in its cache
}

// ask streams one chat completion with the preamble and a question, the way
// applications do: with OpenAI's own client.
func ask(t *testing.T, address, question string) reply {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	client := openai.NewClient(
		option.WithBaseURL("http://"+address+"/v1/"),
		option.WithAPIKey("none"),
		option.WithMaxRetries(0), // a second try would hide what happened to the first
	)
	var res *http.Response
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: "sim-model",
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(preamble),
			openai.UserMessage(question),
		},
		MaxCompletionTokens: openai.Int(8),
		StreamOptions:       openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}, option.WithResponseInto(&res))
	defer stream.Close()

	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Fatalf("the answer to %q has a chunk that does not fit: %s", question, stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		t.Fatalf("streaming the answer to %q: %v", question, err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].FinishReason == "" {
		t.Fatalf("the answer to %q has no finished choice", question)
	}
	return reply{
		pod:      res.Header.Get("X-Inference-Pod"),
		decision: res.Header.Get("X-LLM-Decision"),
		text:     whole.Choices[0].Message.Content,
		prompt:   whole.Usage.PromptTokens,
		cached:   whole.Usage.PromptTokensDetails.CachedTokens,
	}
}
