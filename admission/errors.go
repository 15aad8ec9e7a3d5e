package admission

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/answer"
	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/queue"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

const (
	// statusClientGone is what logs show for a client that left. Nobody gets it.
	statusClientGone = 499
	codeClientGone   = "client_gone"
)

// refusal is an answer of our own.
type refusal struct {
	status     int
	code       string // for programs, and {llm.error}
	message    string // for people
	param      string // the body field at fault
	retryAfter int    // seconds, 0 for no such header
	allow      string // methods, with 405
}

func notServed() *refusal {
	return &refusal{status: http.StatusNotFound, code: "path_not_served", message: "This path is not served here."}
}

func (h *Handler) tooLong() *refusal {
	return &refusal{
		status: http.StatusRequestEntityTooLarge, code: "body_too_large",
		message: fmt.Sprintf("The request body is longer than %d bytes (max_body).", h.maxBody()),
	}
}

// notAccepted is for a body that the engine must not see. The text of a
// request.Refusal is made for clients.
func notAccepted(err error) *refusal {
	f := &refusal{status: http.StatusBadRequest, code: "body_not_accepted", message: "The request body is not accepted."}
	if r, ok := errors.AsType[*request.Refusal](err); ok {
		f.message, f.param = "Not accepted: "+r.Error()+".", r.Field
	}
	return f
}

func atCapacity() *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "at_capacity", retryAfter: 1,
		message: "Every inference server is at its limit (max_concurrent or max_tokens of its endpoint). Try again shortly.",
	}
}

// queueFull and those after it are for requests that may not wait, or have waited
// long enough. Each names the option that says so.
func queueFull(calls int, again time.Duration) *refusal {
	f := &refusal{
		status: http.StatusTooManyRequests, code: "queue_full", retryAfter: seconds(again),
		message: fmt.Sprintf("Every inference server is busy, and as many requests wait as may, %d (queue). Try again later.", calls),
	}
	if calls == 0 {
		f.message = "Every inference server is busy, and requests of this class do not wait (max_wait). Try again later."
	}
	return f
}

func queueTokens(tokens int, again time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "queue_tokens", retryAfter: seconds(again),
		message: fmt.Sprintf("Every inference server is busy, and requests of no more than %d tokens may wait (queue max_tokens). Try again later.", tokens),
	}
}

func queueBytes(most int64) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "queue_bytes", retryAfter: 1,
		message: fmt.Sprintf("The %d bytes that request bodies may take here are in use (queue max_bytes). Try again shortly.", most),
	}
}

func queueTimeout(waited, again time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "queue_timeout", retryAfter: seconds(again),
		message: fmt.Sprintf("No inference server had room for the request within %v (max_wait). Try again later.", waited),
	}
}

func deadlinePassed(again time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "deadline", retryAfter: seconds(again),
		message: "The request cannot begin before its deadline. Try again later, or give it more time (deadline, deadline_header).",
	}
}

// limited is for a request that a limit of its tenant or client keeps out.
func limited(d *queue.Denial) *refusal {
	f := &refusal{status: http.StatusTooManyRequests, retryAfter: seconds(d.RetryAfter)}
	switch d.Limit {
	case queue.LimitTenantCalls:
		f.code = "tenant_concurrent"
		f.message = fmt.Sprintf("%d requests of this tenant are open already (%s). Try again when one has ended.", d.Most, d.Limit)
	case queue.LimitClientCalls:
		f.code = "client_concurrent"
		f.message = fmt.Sprintf("%d requests of this client are open already (%s). Try again when one has ended.", d.Most, d.Limit)
	default:
		f.code = "tenant_tokens"
		f.message = fmt.Sprintf("This tenant has used its %d tokens a minute (%s). Try again later.", d.Most, d.Limit)
	}
	return f
}

func noEndpoint() *refusal {
	return &refusal{
		status: http.StatusServiceUnavailable, code: "no_endpoint", retryAfter: 1,
		message: "No inference server is available, nor was one for as long as requests wait here (max_wait).",
	}
}

func clientGone() *refusal { return &refusal{status: statusClientGone, code: codeClientGone} }

// overloaded is for a Call that no server takes at the moment, though some are
// well.
func overloaded(wait time.Duration) *refusal {
	return &refusal{
		status: http.StatusTooManyRequests, code: "overloaded", retryAfter: seconds(wait),
		message: "Every inference server says that it has too much to do, for longer than the request may wait (max_wait). Try again later.",
	}
}

// seconds is a wait as Retry-After has it: whole seconds that are not too few.
func seconds(wait time.Duration) int {
	return int(max(1, (wait+time.Second-1)/time.Second))
}

// failed is what a client learns of an error that came back from the proxy.
func failed(status int) *refusal {
	switch status {
	case http.StatusServiceUnavailable:
		return noEndpoint()
	case http.StatusGatewayTimeout:
		return &refusal{status: status, code: "upstream_timeout", message: "The inference server did not answer in time."}
	case http.StatusBadGateway:
		return &refusal{status: status, code: "upstream_error", message: "The inference server failed to answer."}
	}
	return &refusal{status: status, code: "gateway_error", message: "The gateway failed to serve the request."}
}

// refuse answers for us: as JSON, or as an error for the site's handle_errors.
// unread says that the client may still be sending a body.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, f *refusal, unread bool) error {
	if unread && r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close")
	}
	if f.status == statusClientGone {
		w.WriteHeader(f.status)
		return nil
	}
	if f.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(f.retryAfter))
	}
	if f.allow != "" {
		w.Header().Set("Allow", f.allow)
	}
	if h.Errors == pass {
		return caddyhttp.Error(f.status, errors.New(f.code))
	}
	f.write(w, r)
	if unread {
		linger(w, r)
	}
	return nil
}

// write writes the error in the shape of the request's API, which the path tells
// also where the body was not read.
func (f *refusal) write(w http.ResponseWriter, r *http.Request) {
	body := answer.ErrorBody(apiOf(r), answer.Problem{Status: f.status, Code: f.code, Message: f.message, Param: f.param})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(f.status)
	_, _ = w.Write(body) // a client that left is in the log already
}

// apiOf names the API of a request, "" where none is known.
func apiOf(r *http.Request) string {
	if r.Method != http.MethodPost {
		return ""
	}
	return request.APIOf(r.URL.Path)
}

// logFailure tells the operator why a client got an error of ours. The cause
// goes to the log alone: it has addresses in it.
func (h *Handler) logFailure(c *llmlb.Call, f *refusal, err error) {
	if he, ok := errors.AsType[caddyhttp.HandlerError](err); ok && he.Err != nil {
		err = he.Err // without Caddy's own file and line
	}
	fields := []zap.Field{
		zap.Int("status", f.status), zap.String("pool", h.handle.Name()),
		zap.Int("attempts", c.Attempts), zap.Error(err),
	}
	if e := c.Tried; e != nil {
		fields = append(fields, zap.String("endpoint", e.Name()), zap.String("address", e.Address()))
	}
	h.logger.Warn("answering for a failed upstream", fields...)
}
