package answer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// An error of the gateway's has the shape of the client's own dialect.
func TestErrorBodies(t *testing.T) {
	full := Problem{Status: 429, Code: "at_capacity", Message: "The \"servers\" are full.\nSorry."}
	const text = `"The \"servers\" are full.\nSorry."`
	field := Problem{Status: 400, Code: "body_not_accepted", Message: "No.", Param: "model"}
	for _, test := range []struct {
		api  string
		p    Problem
		want string
	}{
		{request.Chat, full, `{"error":{"message":` + text + `,"type":"rate_limit_error","param":null,"code":"at_capacity"}}`},
		{request.Responses, field, `{"error":{"message":"No.","type":"invalid_request_error","param":"model","code":"body_not_accepted"}}`},
		{request.Rerank, Problem{Status: 503, Message: "x"}, `{"error":{"message":"x","type":"server_error","param":null,"code":503}}`},
		{"", full, `{"error":{"message":` + text + `,"type":"rate_limit_error","param":null,"code":"at_capacity"}}`},
		{request.Messages, full, `{"type":"error","error":{"type":"rate_limit_error","message":` + text + `,"code":"at_capacity"}}`},
		{request.Messages, field, `{"type":"error","error":{"type":"invalid_request_error","message":"No.","code":"body_not_accepted"}}`},
		{request.Messages, Problem{Status: 404, Type: "mine", Message: "x"}, `{"type":"error","error":{"type":"mine","message":"x"}}`},
		{request.OllamaChat, full, `{"error":` + text + `,"code":"at_capacity"}`},
		{request.OllamaGenerate, Problem{Status: 503, Message: "x"}, `{"error":"x"}`},
		{request.Generate, full, `{"error":` + text + `,"error_type":"overloaded","code":"at_capacity"}`},
		{request.GenerateStream, Problem{Status: 502, Code: "upstream_error", Message: "x"}, `{"error":"x","error_type":"generation","code":"upstream_error"}`},
		{request.Root, field, `{"error":"No.","error_type":"validation","code":"body_not_accepted"}`},
		{request.Completion, Problem{Status: 503, Code: "no_endpoint", Message: "x"}, `{"error":{"code":503,"message":"x","type":"unavailable_error","reason":"no_endpoint"}}`},
		{request.Completion, field, `{"error":{"code":400,"message":"No.","type":"invalid_request_error","reason":"body_not_accepted"}}`},
	} {
		if got := string(ErrorBody(test.api, test.p)); got != test.want {
			t.Errorf("%s: got\n%s\nwant\n%s", test.api, got, test.want)
		}
	}
}

// What OpenAI's clients get is what they always got, to the byte.
func TestErrorBodyAsBefore(t *testing.T) {
	type detail struct {
		Message string  `json:"message"`
		Type    string  `json:"type"`
		Param   *string `json:"param"`
		Code    string  `json:"code"`
	}
	for status, kind := range map[int]string{400: "invalid_request_error", 404: "invalid_request_error", 405: "invalid_request_error", 413: "invalid_request_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error", 504: "server_error"} {
		message, param := "A <message> & more: é\u2028.", "model"
		want, err := json.Marshal(map[string]detail{"error": {message, kind, &param, "code"}})
		if err != nil {
			t.Fatal(err)
		}
		if got := ErrorBody(request.Chat, Problem{Status: status, Code: "code", Message: message, Param: param}); string(got) != string(want) {
			t.Errorf("%d: got %s; want %s", status, got, want)
		}
	}
}

// Whatever the status, each dialect's own client finds the message where it looks
// for it, the type among those that it knows, and our code somewhere.
func TestErrorBodiesAsClientsReadThem(t *testing.T) {
	anthropicTypes := []string{"invalid_request_error", "authentication_error", "permission_error", "not_found_error", "request_too_large", "rate_limit_error", "timeout_error", "api_error", "overloaded_error"}
	tgiTypes := []string{"overloaded", "generation", "validation"}
	for _, api := range slices.Concat(apis, wholeAPIs, []string{""}) {
		for _, status := range []int{400, 401, 403, 404, 405, 408, 413, 429, 500, 501, 502, 503, 504, 529} {
			body := ErrorBody(api, Problem{Status: status, Code: "our_word", Message: "It failed."})
			var plain struct {
				Error string `json:"error"`
				Type  string `json:"error_type"`
			}
			var nested struct {
				Type  string `json:"type"`
				Error struct {
					Type, Message string
					Code          any
				} `json:"error"`
			}
			message := &nested.Error.Message
			into := any(&nested)
			if strings.HasPrefix(api, "ollama") || api == request.Generate || api == request.GenerateStream || api == request.Root {
				message, into = &plain.Error, &plain
			}
			if err := json.Unmarshal(body, into); err != nil || *message != "It failed." {
				t.Errorf("%s, %d: message %q, %v, in %s", api, status, *message, err, body)
			}
			if !strings.Contains(string(body), `"our_word"`) {
				t.Errorf("%s, %d: no code in %s", api, status, body)
			}
			switch {
			case api == request.Messages && (nested.Type != "error" || !slices.Contains(anthropicTypes, nested.Error.Type)):
				t.Errorf("%d: no error of Anthropic's: %s", status, body)
			case into == &plain && !strings.HasPrefix(api, "ollama") && !slices.Contains(tgiTypes, plain.Type):
				t.Errorf("%d: no error of TGI's: %s", status, body)
			case api == request.Completion && nested.Error.Code != float64(status):
				t.Errorf("%d: the code is no number: %s", status, body)
			}
			// A gateway in front of this one reads it out of a 200, too.
			if api != "" && InBand(body) == nil {
				t.Errorf("%s, %d: no error is found in %s", api, status, body)
			}
		}
	}
}
