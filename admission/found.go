package admission

import (
	"maps"
	"net/http"
	"net/url"
)

// found is how the proxy is to find the request and the answer's headers, however
// often it is asked: handlers in between run each time, and may change them.
type found struct {
	request http.Request
	url     url.URL
	header  http.Header // the request's, nil when it is served once at most
	answer  http.Header
}

func (f *found) note(x *exchange) {
	f.answer = x.writer.Header().Clone()
	if r := x.request; x.grants && x.waits() {
		f.request, f.url, f.header = *r, *r.URL, r.Header.Clone()
	}
}

// restore makes the request ready to be served again.
func (f *found) restore(x *exchange) {
	f.clean(x)
	r := x.request
	*r = f.request
	*r.URL = f.url
	clear(r.Header)
	maps.Copy(r.Header, f.header.Clone())
	put(r, x.call)
}

// clean takes back the headers of an answer that was none.
func (f *found) clean(x *exchange) {
	h := x.writer.Header()
	clear(h)
	maps.Copy(h, f.answer.Clone())
}
