package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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

// chat is what one request asks: a system message, a question and how many
// tokens the answer may have.
type chat struct {
	model, system, user string
	most                int64
}

// reply is a streamed chat completion that came to its end.
type reply struct {
	pod       string // which simulator served
	endpoint  string // which endpoint served, by the gateway's name; empty without a gateway
	decision  string // why the gateway chose it; empty without a gateway
	text      string
	prompt    int64 // prompt tokens
	cached    int64 // those of them that the server had in its cache
	generated int64 // tokens of the answer
}

// ask streams one chat completion with the preamble and a question from a
// simulator.
func ask(t *testing.T, address, question string) reply {
	t.Helper()
	got, err := converse(t.Context(), address, chat{"sim-model", preamble, question, 8})
	if err != nil {
		t.Fatalf("asking %q: %v", question, err)
	}
	return got
}

// converse streams one chat completion the way applications do, with OpenAI's
// own client, and is content only with a whole one: a finish reason, a usage and
// the word that ends the stream.
func converse(ctx context.Context, address string, c chat) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var seen ending
	client := openai.NewClient(
		option.WithBaseURL("http://"+address+"/v1/"),
		option.WithAPIKey("none"),
		option.WithMaxRetries(0), // a second try would hide what happened to the first
		option.WithMiddleware(seen.watch),
	)
	var res *http.Response
	stream := client.Chat.Completions.NewStreaming(ctx, openai.ChatCompletionNewParams{
		Model: c.model,
		Messages: []openai.ChatCompletionMessageParamUnion{
			openai.SystemMessage(c.system),
			openai.UserMessage(c.user),
		},
		MaxCompletionTokens: openai.Int(c.most),
		Temperature:         openai.Float(0),
		StreamOptions:       openai.ChatCompletionStreamOptionsParam{IncludeUsage: openai.Bool(true)},
	}, option.WithResponseInto(&res))
	defer stream.Close()

	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			return reply{}, fmt.Errorf("the answer has a chunk that does not fit: %s", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil {
		return reply{}, fmt.Errorf("streaming the answer: %w", err)
	}
	if len(whole.Choices) != 1 || whole.Choices[0].FinishReason == "" {
		return reply{}, errors.New("the answer has no finished choice")
	}
	if !bytes.Contains(seen.last, []byte("data: [DONE]")) {
		return reply{}, fmt.Errorf("the stream ends without its last word: %q", seen.last)
	}
	return reply{
		pod:       res.Header.Get("X-Inference-Pod"),
		endpoint:  res.Header.Get("X-LLM-Endpoint"),
		decision:  res.Header.Get("X-LLM-Decision"),
		text:      whole.Choices[0].Message.Content,
		prompt:    whole.Usage.PromptTokens,
		cached:    whole.Usage.PromptTokensDetails.CachedTokens,
		generated: whole.Usage.CompletionTokens,
	}, nil
}

// ending remembers the last bytes of an answer: the client takes the end of the
// connection for the end of a stream, and would not tell if that came early.
type ending struct {
	io.ReadCloser
	last []byte
}

func (e *ending) watch(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	res, err := next(r)
	if err == nil {
		e.ReadCloser, res.Body = res.Body, e
	}
	return res, err
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	e.last = append(e.last, p[:n]...)
	e.last = e.last[max(0, len(e.last)-64):]
	return n, err
}
