package admission

import (
	"encoding/json"
	"net/http"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
)

// swallowedMost bounds what is kept of an answer that becomes an event.
const swallowedMost = 64 << 10

// swallowed is an answer that came too late to be one: the client has a status
// already. What it says of an error is told as an event.
type swallowed struct {
	status int
	body   []byte
	own    *refusal // ours, which needs no reading
}

// Write keeps the beginning.
func (s *swallowed) Write(p []byte) (int, error) {
	s.body = append(s.body, p[:min(len(p), swallowedMost+1-len(s.body))]...)
	return len(p), nil
}

// problem is what the answer said, or what its status says.
func (s *swallowed) problem() answer.Problem {
	if f := s.own; f != nil {
		return answer.Problem{Status: f.status, Code: f.code, Message: f.message}
	}
	p := answer.Problem{Status: s.status, Code: "upstream_error", Message: "The inference server failed to answer."}
	switch {
	case s.status < http.StatusBadRequest: // an answer, but no stream as was asked for
		p.Status, p.Code = http.StatusBadGateway, "not_a_stream"
		p.Message = "The inference server answered in one piece, and a stream had been begun for it."
	case s.status < http.StatusInternalServerError:
		p.Message = "The inference server refused the request."
	}
	if len(s.body) <= swallowedMost && s.status >= http.StatusBadRequest {
		tell(&p, s.body)
	}
	return p
}

// tell takes over what the body of an error says, in any of the shapes that
// engines have: an error object, under a name or bare, or a text.
func tell(p *answer.Problem, body []byte) {
	var said map[string]json.RawMessage
	if json.Unmarshal(body, &said) != nil {
		return
	}
	for _, name := range []string{"error", "detail"} {
		if text := textOf(said[name]); text != "" {
			p.Message, p.Type, p.Code = text, textOf(said["error_type"]), ""
			return
		}
		var inner map[string]json.RawMessage
		if json.Unmarshal(said[name], &inner) == nil && len(inner) > 0 {
			said = inner
			break
		}
	}
	if text := textOf(said["message"]); text != "" {
		p.Message, p.Type, p.Code = text, textOf(said["type"]), textOf(said["code"])
	}
}

// textOf is the value of a JSON string, "" of anything else.
func textOf(v json.RawMessage) (s string) {
	_ = json.Unmarshal(v, &s)
	return s
}
