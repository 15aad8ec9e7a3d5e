package answer

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
)

// statusOverloaded is Anthropic's and Dynamo's.
const statusOverloaded = 529

// OverloadStatus reports whether an HTTP status says "too much to do" rather
// than "broken".
func OverloadStatus(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable || status == statusOverloaded
}

// blame is what an event says of an error, in whatever order.
type blame struct {
	told bool // there is an error
	code int  // a status by number, 0 for none
	tgi  bool // the number is TGI's, which sends 422 in streams whatever happened
	kind int  // the status that a type or a code in words stands for, 0 for none
	said int  // the status that the message stands for, 0 for none

	other bool // the type says what kind of error it is, and it is none of those
}

func (b *blame) number(n int, tgi bool) {
	if n >= http.StatusBadRequest && n < 600 {
		b.code, b.tgi = n, tgi
	}
}

// verdict is the status that the error stands for, and whether it is overload. A
// message counts where nothing precise contradicts it: it may repeat what the
// client wrote, and a client must not be able to say that a server is overloaded.
func (b *blame) verdict() (status int, overloaded bool) {
	switch {
	case b.code != 0 && (!b.tgi || b.code != http.StatusUnprocessableEntity):
		status = b.code
		overloaded = status >= http.StatusInternalServerError && OverloadStatus(b.said)
	case b.kind != 0:
		status = b.kind
	case b.said != 0 && !(b.other && OverloadStatus(b.said)):
		status = b.said
	case b.code != 0:
		status = b.code
	default:
		status = http.StatusInternalServerError
	}
	return status, overloaded || OverloadStatus(status)
}

// word takes in an error's type, or a code that is no number.
func (b *blame) word(text []byte) {
	lower(text)
	if n, err := strconv.Atoi(string(text)); err == nil {
		b.number(n, false)
		return
	}
	switch status := statusOf(string(text)); {
	case status == 0:
		b.other = b.other || len(text) > 0 && !vague(string(text))
	case b.kind == 0:
		b.kind = status
	}
}

// vague reports whether a type says no more than that there is an error.
func vague(kind string) bool {
	switch kind {
	case "error", "api_error", "server_error", "internal_error", "internal_server_error", "internalservererror",
		"generation", "requests", "tokens", "none", "unknown", "unknown_error", "upstream_error", "runtimeerror":
		return true
	}
	return false
}

// statusOf tells what the engines' error types mean, 0 for those that say no
// more than that there is an error.
func statusOf(kind string) int {
	switch kind {
	case "overloaded_error":
		return statusOverloaded
	case "overloaded", "rate_limit_error", "rate_limit_exceeded", "ratelimiterror", "insufficient_quota", "too_many_requests":
		return http.StatusTooManyRequests // the first is TGI's, which answers so
	case "service unavailable", "service_unavailable", "service_unavailable_error", "serviceunavailableerror", "unavailable_error":
		return http.StatusServiceUnavailable
	case "timeout_error":
		return http.StatusGatewayTimeout
	case "not_supported_error":
		return http.StatusNotImplemented
	case "invalid_request_error", "badrequesterror", "invalid_prompt", "context_length_exceeded", "exceed_context_size_error":
		return http.StatusBadRequest
	case "authentication_error":
		return http.StatusUnauthorized
	case "permission_error":
		return http.StatusForbidden
	case "not_found_error", "notfounderror", "model_not_found":
		return http.StatusNotFound
	case "request_too_large":
		return http.StatusRequestEntityTooLarge
	case "validation", "template_error", "missing_template_variable", "tool_error":
		return http.StatusUnprocessableEntity
	}
	// Others have names of their own for the same.
	for _, m := range kinds {
		if strings.Contains(kind, m.part) {
			return m.status
		}
	}
	return 0
}

var kinds = []struct {
	part   string
	status int
}{
	{"overload", http.StatusServiceUnavailable},
	{"rate_limit", http.StatusTooManyRequests},
	{"ratelimit", http.StatusTooManyRequests},
	{"unavailable", http.StatusServiceUnavailable},
}

// message takes in the beginning of an error's message.
func (b *blame) message(text []byte) {
	lower(text)
	for _, m := range messages {
		if bytes.Contains(text, m.part) {
			b.said = m.status
			return
		}
	}
}

// messages that mean something by themselves, the more precise ones first. TGI
// answers 429 when it is overloaded and can.
var messages = []struct {
	part   []byte
	status int
}{
	{[]byte("model is overloaded"), http.StatusTooManyRequests},
	{[]byte("input validation error"), http.StatusUnprocessableEntity},
	{[]byte("template error"), http.StatusUnprocessableEntity},
	{[]byte("tool error"), http.StatusUnprocessableEntity},
	{[]byte("request failed during generation"), http.StatusInternalServerError},
	{[]byte("incomplete generation"), http.StatusInternalServerError},
	{[]byte("overloaded"), http.StatusServiceUnavailable},
	{[]byte("server busy"), http.StatusServiceUnavailable},
	{[]byte("maximum pending requests exceeded"), http.StatusServiceUnavailable},
	{[]byte("queue is full"), http.StatusServiceUnavailable},
	{[]byte("rate limit"), http.StatusTooManyRequests},
}

// lower changes ASCII letters in place.
func lower(b []byte) {
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
}
