package health

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	loadingModel reason = "loading its model"
	asleep       reason = "asleep: the engine has offloaded its weights"
)

// readyVerdict says what an answer to the question for readiness means. notReady is
// a status by which the engine says so besides 503, 0 for none. ours says
// that the operator has named the path: then that it is not there is a mistake or
// a failure, while an engine's own path may be missing in a release, or closed to
// us, and that says nothing of it. A server that only has too much to do tells nothing.
func readyVerdict(status int, body []byte, notReady int, ours bool) (v llmlb.CheckVerdict, why reason, tells bool) {
	if status == notReady {
		return llmlb.CheckNotReady, statusReason(status), true
	}
	if status == http.StatusServiceUnavailable || status < http.StatusMultipleChoices {
		switch why = saysOf(body); {
		case why != "":
			return llmlb.CheckLoading, why, true
		case status == http.StatusServiceUnavailable:
			return llmlb.CheckNotReady, statusReason(status), true
		}
		return llmlb.CheckPassed, "", true
	}
	switch {
	case answer.OverloadStatus(status):
		return llmlb.CheckFailed, "", false
	case !ours && (status < http.StatusInternalServerError || status == http.StatusNotImplemented):
		return llmlb.CheckUnsuitable, statusReason(status), true
	}
	return llmlb.CheckFailed, statusReason(status), true
}

// saysOf returns why a server is not ready by its own words, where it says so in
// one of two ways: {"status":"…"} or {"error":{"message":"…"}}. Anything else says
// nothing. None of its words are passed on.
func saysOf(body []byte) reason {
	if len(body) == 0 || body[0] != '{' {
		return ""
	}
	var said struct {
		Status text            `json:"status"`
		Error  json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	var problem struct {
		Message text `json:"message"`
	}
	_ = json.Unmarshal(said.Error, &problem) // else it is of another kind
	switch words := strings.ToLower(string(said.Status + " " + problem.Message)); {
	case strings.Contains(words, "sleeping"):
		return asleep
	case strings.Contains(words, "loading"), strings.Contains(words, "initializing"), strings.Contains(words, "starting"):
		return loadingModel
	}
	return ""
}

// text is a string, or nothing where there is something else.
type text string

// UnmarshalJSON implements json.Unmarshaler.
func (t *text) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*t = text(s)
	}
	return nil
}
