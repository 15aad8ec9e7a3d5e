package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// Problem is what goes wrong, before an answer begins or after it has begun as a
// success.
type Problem struct {
	// Status is the HTTP status that the answer has, or would have had.
	Status int

	// Type says whose fault it is, in the dialect's words. Default: what the
	// dialect calls the Status.
	Type string

	// Code is for programs. Default: the Status, where the dialect has codes.
	Code string

	// Message is for people.
	Message string

	// Param is the field of the request's body that is at fault. Default: none.
	Param string
}

// code is the Code as JSON.
func (p *Problem) code() json.RawMessage {
	if p.Code == "" {
		return json.RawMessage(strconv.Itoa(p.Status))
	}
	return quoted(p.Code)
}

func (p *Problem) kind(dialect func(status int) string) string {
	if p.Type != "" {
		return p.Type
	}
	return dialect(p.Status)
}

// ErrorEvent returns the event that tells a client of the API about the problem
// in a stream that has begun, nil for an API that is not known. It does not end
// the stream: see [EndMarker].
func ErrorEvent(api string, p Problem) []byte {
	switch api {
	case request.Chat, request.Completions, request.Completion, request.Generate, request.Transcription, request.Image:
		return event("", "data: ", p.openAI())
	case request.Responses:
		return event("error", "data: ", struct {
			Type    string          `json:"type"`
			Code    json.RawMessage `json:"code"`
			Message string          `json:"message"`
			Param   *string         `json:"param"`
		}{Type: "error", Code: p.responsesCode(), Message: p.Message})
	case request.Messages:
		type detail struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		}
		return event("error", "data: ", struct {
			Type  string `json:"type"`
			Error detail `json:"error"`
		}{"error", detail{p.kind(anthropicType), p.Message}})
	case request.GenerateStream, request.Root:
		return event("", "data:", struct {
			Error string `json:"error"`
			Type  string `json:"error_type"`
		}{p.Message, p.kind(tgiType)})
	case request.OllamaChat, request.OllamaGenerate:
		return append(asJSON(map[string]string{"error": p.Message}), '\n')
	}
	return nil
}

// openAI is the problem in OpenAI's shape.
func (p *Problem) openAI() any {
	type detail struct {
		Message string          `json:"message"`
		Type    string          `json:"type"`
		Param   *string         `json:"param"`
		Code    json.RawMessage `json:"code"`
	}
	d := detail{Message: p.Message, Type: p.kind(openAIType), Code: p.code()}
	if p.Param != "" {
		d.Param = &p.Param
	}
	return map[string]detail{"error": d}
}

// responsesCode is a string always: that API has no numbers there, and an error
// event has no type besides its own.
func (p *Problem) responsesCode() json.RawMessage {
	if p.Code != "" {
		return quoted(p.Code)
	}
	return quoted(p.kind(openAIType))
}

func openAIType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

func anthropicType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusServiceUnavailable, status == statusOverloaded:
		return "overloaded_error"
	case status == http.StatusGatewayTimeout:
		return "timeout_error"
	case status >= http.StatusInternalServerError:
		return "api_error"
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	case status == http.StatusRequestEntityTooLarge:
		return "request_too_large"
	}
	return "invalid_request_error"
}

func tgiType(status int) string {
	switch {
	case OverloadStatus(status):
		return "overloaded"
	case status >= http.StatusInternalServerError:
		return "generation"
	}
	return "validation"
}

// EndMarker returns what ends a stream of the API, nil where that is the end of
// the body or an event that only the engine can write.
func EndMarker(api string) []byte {
	switch api {
	case request.Chat, request.Completions, request.Generate:
		return []byte("data: [DONE]\n\n")
	}
	return nil
}

// Comment returns an event that keeps a stream of the API alive and that clients
// pass over, nil where there is none.
func Comment(api string) []byte {
	if ContentType(api) == typeEvents {
		return []byte(": keep-alive\n\n")
	}
	return nil
}

// ContentType returns the media type of the API's streams, "" for an API that has
// none or is not known.
func ContentType(api string) string {
	switch {
	case grammarOf(api) == nil, request.Encodes(api):
		return ""
	case !request.StreamsSSE(api):
		return typeLines
	}
	return typeEvents
}

// event writes one server-sent event.
func event(name, field string, v any) []byte {
	var b []byte
	if name != "" {
		b = append(b, "event: "+name+"\n"...)
	}
	b = append(b, field...)
	b = append(b, asJSON(v)...)
	return append(b, "\n\n"...)
}

func quoted(s string) json.RawMessage { return asJSON(s) }

// asJSON is v as JSON on one line. The values it gets can all be encoded.
func asJSON(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}
