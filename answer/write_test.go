package answer

import (
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// What goes wrong in a stream that has begun is told in the client's dialect.
func TestErrorEvents(t *testing.T) {
	gone := Problem{Status: 502, Code: "upstream_error", Message: "The \"server\" failed.\nSorry."}
	const text = `"The \"server\" failed.\nSorry."`
	for _, test := range []struct {
		api  string
		p    Problem
		want string
	}{
		{request.Chat, gone, `data: {"error":{"message":` + text + `,"type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"},
		{request.Completions, Problem{Status: 429, Message: "x"}, `data: {"error":{"message":"x","type":"rate_limit_error","param":null,"code":429}}` + "\n\n"},
		{request.Chat, Problem{Status: 503, Type: "mine", Message: "x"}, `data: {"error":{"message":"x","type":"mine","param":null,"code":503}}` + "\n\n"},
		{request.Chat, Problem{Status: 404, Message: "x"}, `data: {"error":{"message":"x","type":"invalid_request_error","param":null,"code":404}}` + "\n\n"},
		{request.Completion, gone, `data: {"error":{"message":` + text + `,"type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"},
		{request.Generate, gone, `data: {"error":{"message":` + text + `,"type":"server_error","param":null,"code":"upstream_error"}}` + "\n\n"},
		{request.Responses, gone, "event: error\n" + `data: {"type":"error","code":"upstream_error","message":` + text + `,"param":null}` + "\n\n"},
		{request.Messages, gone, "event: error\n" + `data: {"type":"error","error":{"type":"api_error","message":` + text + `}}` + "\n\n"},
		{request.GenerateStream, gone, `data:{"error":` + text + `,"error_type":"generation"}` + "\n\n"},
		{request.Root, Problem{Status: 503, Message: "x"}, `data:{"error":"x","error_type":"overloaded"}` + "\n\n"},
		{request.OllamaChat, gone, `{"error":` + text + `}` + "\n"},
		{request.OllamaGenerate, gone, `{"error":` + text + `}` + "\n"},
		{request.Transcription, Problem{Status: 400, Param: "file", Message: "x"}, `data: {"error":{"message":"x","type":"invalid_request_error","param":"file","code":400}}` + "\n\n"},
		{request.Embeddings, gone, ""},
		{"", gone, ""},
	} {
		if got := string(ErrorEvent(test.api, test.p)); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.api, got, test.want)
		}
	}
}

var apis = []string{
	request.Chat, request.Completions, request.Responses, request.Messages, request.OllamaChat, request.OllamaGenerate,
	request.Generate, request.GenerateStream, request.Completion, request.Root,
}

// wholeAPIs are those whose answers are read only when they come whole.
var wholeAPIs = []string{
	request.Embeddings, request.Pooling, request.Classify, request.Rerank, request.Score, request.Transcription, request.Image,
}

// Another gateway of this kind in front must understand what we write: an
// overload as that, whatever is written before and after it.
func TestWhatWeWriteCanBeRead(t *testing.T) {
	for _, api := range apis {
		for status, overloaded := range map[int]bool{429: true, 503: true, 500: false, 502: false, 504: false} {
			message := "It failed."
			if overloaded {
				message = "The queue is full." // Ollama's errors have no more than that
			}
			stream := string(Comment(api)) + string(ErrorEvent(api, Problem{Status: status, Message: message})) + string(EndMarker(api))
			f := read(t, api, ContentType(api), stream)
			if !f.Failed || f.Overloaded != overloaded || (f.Status >= 500) != (status >= 500) && !overloaded || f.Tokens > 0 {
				t.Errorf("%s, %d: %+v", api, status, f)
			}
			if f.Done != (EndMarker(api) != nil) {
				t.Errorf("%s: done %v", api, f.Done)
			}
			if InBand([]byte(stream)) == nil {
				t.Errorf("%s: no error in %q", api, stream)
			}
		}
	}
}

func TestCommentsAreForEventsOnly(t *testing.T) {
	for _, api := range slices.Concat(apis, wholeAPIs, []string{""}) {
		c := string(Comment(api))
		switch ContentType(api) {
		case typeEvents:
			if !strings.HasPrefix(c, ":") || !strings.HasSuffix(c, "\n\n") {
				t.Errorf("%s: %q is no comment", api, c)
			}
		case typeLines, "":
			if c != "" || EndMarker(api) != nil {
				t.Errorf("%s: %q, %q; want nothing", api, c, EndMarker(api))
			}
		}
	}
}
