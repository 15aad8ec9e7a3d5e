package admission

import (
	"net/http"
	"net/url"
	"slices"
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
	name   string
	values []string
}

func copyOf(h http.Header) fields {
	n := 0
	for _, v := range h {
		n += len(v)
	}
	f, all := make(fields, 0, len(h)), make([]string, 0, n)
	for name, v := range h {
		begin := len(all)
		all = append(all, v...)
		f = append(f, field{name, all[begin:len(all):len(all)]})
	}
	return f
}

// put makes h what it was.
func (f fields) put(h http.Header) {
	clear(h)
	for _, f := range f {
		h[f.name] = slices.Clone(f.values)
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
	*r = f.request
	*r.URL = f.url
	f.header.put(r.Header)
	put(r, x.call)
}

// clean takes back the headers of an answer that was none.
func (f *found) clean(x *exchange) { f.answer.put(x.writer.Header()) }
