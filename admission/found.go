package admission

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// found is how the proxy is to find the request and the answer's headers, however
// often it is asked: handlers in between run each time, and may change them.
type found struct {
	request http.Request
	url     url.URL
	header  fields // the request's, nil when it is served once at most
	answer  fields
}

// fields are a copy of headers, cheaper than another map of them: most are never
// needed.
type fields []field

type field struct {
	name  string
	alone bool
	one   string   // the value, where it is alone
	all   []string // else
}

func copyOf(h http.Header) fields {
	if len(h) == 0 {
		return nil
	}
	f := make(fields, 0, len(h))
	for name, v := range h {
		if len(v) == 1 {
			f = append(f, field{name: name, alone: true, one: v[0]})
		} else {
			f = append(f, field{name: name, all: slices.Clone(v)})
		}
	}
	return f
}

// put makes h what it was.
func (f fields) put(h http.Header) {
	clear(h)
	for _, f := range f {
		if f.alone {
			h[f.name] = []string{f.one}
		} else {
			h[f.name] = slices.Clone(f.all)
		}
	}
}

func (f *found) note(x *exchange) {
	f.answer = copyOf(x.writer.Header())
	if r := x.request; x.grants && x.waits() {
		f.request, f.url, f.header = *r, *r.URL, copyOf(r.Header)
	}
}

// restore makes the request ready to be served again.
func (f *found) restore(x *exchange) {
	f.clean(x)
	r := x.request
	*r = *f.request.WithContext(ownVars(f.request.Context()))
	*r.URL = f.url
	f.header.put(r.Header)
	put(r, x.call)
}

// ownVars returns the context with variables of its own, of which there are the same.
// A dial of the time before may still be reading those that were there, and the proxy
// writes some each time it is asked.
func ownVars(ctx context.Context) context.Context {
	vars, ok := ctx.Value(caddyhttp.VarsCtxKey).(map[string]any)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, caddyhttp.VarsCtxKey, maps.Clone(vars))
}

// clean takes back the headers of an answer that was none.
func (f *found) clean(x *exchange) { f.answer.put(x.writer.Header()) }
