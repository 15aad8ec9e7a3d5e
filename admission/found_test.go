package admission

import (
	"net/http"
	"reflect"
	"testing"
)

// Headers are put back as they were: also those that are there to say that there is
// none, as a nil X-Forwarded-For tells the proxy to add no addresses.
func TestHeadersArePutBackAsTheyWere(t *testing.T) {
	was := http.Header{"A": {"1"}, "B": {"1", "2"}, "Empty": {}, "X-Forwarded-For": nil}
	h := was.Clone()
	f := copyOf(h)
	for range 2 {
		h.Add("A", "3")
		h["B"][0] = "changed"
		h.Set("X-Forwarded-For", "192.0.2.1")
		h.Set("C", "new")
		if f.put(h); !reflect.DeepEqual(h, was) {
			t.Errorf("put back %#v, want %#v", h, was)
		}
	}
}
