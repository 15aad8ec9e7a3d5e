package admission

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
	"github.com/caddy-llmlb/caddy-llmlb/request"
)

// operations are OpenTelemetry's names of what the dialects ask for. It has none
// for the others, which go by their own.
var operations = map[string]string{
	request.Chat: "chat", request.Responses: "chat", request.Messages: "chat", request.OllamaChat: "chat",
	request.Completions: "text_completion", request.Completion: "text_completion", request.OllamaGenerate: "text_completion",
	request.Generate: "text_completion", request.GenerateStream: "text_completion", request.Root: "text_completion",
	request.Embeddings: "embeddings", request.Pooling: "embeddings",
}

// maxSpanText bounds what a client can put into a span.
const maxSpanText = 256

// trace adds what is known of the Call to the span that Caddy's tracing handler
// has open, if there is one that is kept. Nothing of a prompt or an answer is in
// it, and servers go by their names.
func (x *exchange) trace() {
	span := trace.SpanFromContext(x.request.Context())
	if !span.IsRecording() {
		return
	}
	c := x.call
	list := make([]attribute.KeyValue, 0, 20)
	text := func(key, value string) {
		if value != "" {
			list = append(list, attribute.String(key, value))
		}
	}
	number := func(key string, n int) {
		if n >= 0 {
			list = append(list, attribute.Int(key, n))
		}
	}
	operation := operations[c.API]
	if operation == "" {
		operation = c.API
	}
	text("gen_ai.operation.name", operation)
	text("gen_ai.request.model", spanText(c.Model))
	number("gen_ai.usage.input_tokens", c.PromptTokens)
	number("gen_ai.usage.cache_read.input_tokens", c.CachedTokens)
	number("gen_ai.usage.output_tokens", c.OutputTokens)
	text("llmlb.pool", x.handler.handle.Name())
	text("llmlb.class", c.Class)
	text("llmlb.tenant", spanText(x.handler.shown(c.Tenant)))
	text("llmlb.outcome", c.Outcome.String())
	text("llmlb.error", c.Refusal)
	if c.Outcome.Failed() || c.Outcome == llmlb.Refused {
		text("error.type", errorType(c))
	}
	number("llmlb.attempts", c.Attempts)
	list = append(list, attribute.Float64("llmlb.queue_wait_ms", millis(c.Waited)))
	if e := c.Tried; e != nil && c.Attempts > 0 {
		text("gen_ai.provider.name", engineOf(e))
		text("llmlb.endpoint", e.Name())
		text("llmlb.decision", c.Decision.Reason.String())
		number("llmlb.matched_tokens", c.Decision.Matched)
	}
	if !c.FirstToken.IsZero() {
		list = append(list, attribute.Float64("llmlb.ttft_ms", millis(c.FirstToken.Sub(c.Arrival))))
	}
	span.SetAttributes(list...)
}

// errorType is the word that a failure goes by.
func errorType(c *llmlb.Call) string {
	if c.Refusal != "" {
		return c.Refusal
	}
	return c.Outcome.String()
}

// engineOf is the engine that the endpoint runs, "" until that is known.
func engineOf(e *llmlb.Endpoint) string {
	p := e.Pool()
	p.Lock()
	defer p.Unlock()
	signals, known := e.Ledger().Signals()
	if !known {
		return ""
	}
	return signals.Engine
}

// spanText cuts what a client has sent to what a span has room for, and leaves out
// what cannot be shown.
func spanText(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, s[:min(len(s), maxSpanText)])
}
