package answer

import (
	"net/http"

	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// ErrorBody returns the body of an HTTP error answer in the API's own shape, so
// that its clients find in it what they look for. It is JSON, without a line end;
// for an API that is not known it has OpenAI's shape. The Problem's Code is in
// each of them, where no client takes offence at it.
func ErrorBody(api string, p Problem) []byte {
	switch api {
	case request.Messages:
		type detail struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Code    string `json:"code,omitempty"`
		}
		return asJSON(struct {
			Type  string `json:"type"`
			Error detail `json:"error"`
		}{"error", detail{p.kind(anthropicType), p.Message, p.Code}})
	case request.OllamaChat, request.OllamaGenerate:
		return asJSON(struct {
			Error string `json:"error"`
			Code  string `json:"code,omitempty"`
		}{p.Message, p.Code})
	case request.Generate, request.GenerateStream, request.Root:
		return asJSON(struct {
			Error string `json:"error"`
			Type  string `json:"error_type"`
			Code  string `json:"code,omitempty"`
		}{p.Message, p.kind(tgiType), p.Code})
	case request.Completion:
		type detail struct {
			Code    int    `json:"code"` // the status, which its clients take for a number
			Message string `json:"message"`
			Type    string `json:"type"`
			Reason  string `json:"reason,omitempty"`
		}
		return asJSON(map[string]detail{"error": {p.Status, p.Message, p.kind(llamaType), p.Code}})
	}
	return asJSON(p.openAI())
}

func llamaType(status int) string {
	switch {
	case OverloadStatus(status):
		return "unavailable_error"
	case status == http.StatusNotImplemented:
		return "not_supported_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status == http.StatusNotFound:
		return "not_found_error"
	}
	return "invalid_request_error"
}
