package contract

import (
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// first is the simplest policy.
func first(pool reverseproxy.UpstreamPool, _ *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
	return pool[0]
}

// refuse fails every attempt as if no connection could be made.
func refuse(*http.Request) (*http.Response, error) {
	return nil, reverseproxy.NewDialError(io.ErrUnexpectedEOF)
}

// State of one request may hang on the request that Select sees, and the body
// that Select puts there is the one that is sent; vars are shared with the
// handlers around the proxy.
func TestSelectSeesOneCloneOnEveryRetry(t *testing.T) {
	var outside *http.Request
	var selects recorder[*http.Request]
	var fromHandler recorder[any]
	var fromSelect any

	front := inFront(t, func(w http.ResponseWriter, r *http.Request, next caddyhttp.Handler) error {
		outside = r
		caddyhttp.SetVar(r.Context(), "from_handler", "call 7")
		err := next.ServeHTTP(w, r)
		fromSelect = caddyhttp.GetVar(r.Context(), "from_select")
		return err
	})
	url := load(t, []object{front, proxyTo(t, hooks{
		choose: func(pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
			n := selects.add(r)
			fromHandler.add(caddyhttp.GetVar(r.Context(), "from_handler"))
			caddyhttp.SetVar(r.Context(), "from_select", n)
			return pool[0]
		},
		roundTrip: refuse,
	}, object{"retries": 2}, "127.0.0.1:1")})

	post(t, url, "")

	seen := selects.list()
	if len(seen) != 3 {
		t.Fatalf("Select ran %d times for one request and two retries, want 3", len(seen))
	}
	if seen[1] != seen[0] || seen[2] != seen[0] {
		t.Error("Select was given different requests on retries of one request")
	}
	if seen[0] == outside {
		t.Error("Select was given the handler's own request, want a clone")
	}
	if got := fromHandler.list(); !slices.Equal(got, []any{"call 7", "call 7", "call 7"}) {
		t.Errorf("Select saw the handler's var as %v", got)
	}
	if fromSelect != 3 {
		t.Errorf("the handler saw Select's var as %v, want 3", fromSelect)
	}
}

// Once a policy has found that nobody can serve, each further Select is a turn
// of the loop, so it must be cheap; and "retries 0" means never, not for ever.
func TestNilFromSelectCountsAsRetry(t *testing.T) {
	for _, test := range []struct {
		name    string
		retries int
		selects int
	}{
		{"without retries", 0, 1},
		{"with two retries", 2, 3},
	} {
		t.Run(test.name, func(t *testing.T) {
			var selects recorder[struct{}]
			url := load(t, []object{proxyTo(t, hooks{
				choose: func(reverseproxy.UpstreamPool, *http.Request, http.ResponseWriter) *reverseproxy.Upstream {
					selects.add(struct{}{})
					return nil
				},
			}, object{"retries": test.retries}, "127.0.0.1:1")})

			if got := post(t, url, "").status; got != http.StatusServiceUnavailable {
				t.Errorf("the client was answered %d, want 503", got)
			}
			if got := len(selects.list()); got != test.selects {
				t.Errorf("Select ran %d times, want %d", got, test.selects)
			}
		})
	}
}

// A reservation that was made before the proxy ran stays usable when a dynamic
// source has meanwhile dropped its upstream.
func TestSelectMayReturnAnUpstreamOutsideThePool(t *testing.T) {
	server := backend(t, echo)
	url := load(t, []object{proxyTo(t, hooks{
		choose: func(reverseproxy.UpstreamPool, *http.Request, http.ResponseWriter) *reverseproxy.Upstream {
			return &reverseproxy.Upstream{Dial: server.Listener.Addr().String(), Host: new(reverseproxy.Host)}
		},
	}, nil, "127.0.0.1:1")})

	if got := post(t, url, "hello"); got.status != http.StatusOK || got.body != "hello" {
		t.Errorf("got %d %q, want the answer of the upstream outside the pool", got.status, got.body)
	}
}

// The pool is the handler's own: sorting it in place would change it for
// everybody, at the same time as others read it.
func TestSelectIsGivenTheHandlersOwnSlice(t *testing.T) {
	server := backend(t, echo)
	var firsts recorder[**reverseproxy.Upstream]
	url := load(t, []object{proxyTo(t, hooks{
		choose: func(pool reverseproxy.UpstreamPool, _ *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
			firsts.add(&pool[0])
			return pool[0]
		},
	}, nil, server.URL, "127.0.0.1:1")})

	post(t, url, "")
	post(t, url, "")
	if seen := firsts.list(); len(seen) != 2 || seen[0] != seen[1] {
		t.Error("two requests were given different slices: the pool is copied for each now")
	}
}

// Thirty-two requests that arrive together would all see the same count and go
// to the same upstream, so a policy has to reserve inside Select.
func TestNumRequestsIsCountedAfterSelect(t *testing.T) {
	var inSelect, inRoundTrip int
	url := load(t, []object{proxyTo(t, hooks{
		choose: func(pool reverseproxy.UpstreamPool, _ *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
			inSelect = pool[0].Host.NumRequests()
			return pool[0]
		},
		roundTrip: func(r *http.Request) (*http.Response, error) {
			info, _ := reverseproxy.GetDialInfo(r.Context())
			inRoundTrip = info.Upstream.Host.NumRequests()
			return refuse(r)
		},
	}, nil, "127.0.0.1:1")})

	post(t, url, "")
	if inSelect != 0 || inRoundTrip != 1 {
		t.Errorf("the request was counted as %d in Select and %d in RoundTrip, want 0 and 1", inSelect, inRoundTrip)
	}
}

// A policy that wants to tell the upstream something cannot do it by headers.
func TestHeadersSetInSelectStick(t *testing.T) {
	for _, test := range []struct {
		name   string
		ops    bool
		second []string // what the second attempt carries
	}{
		{"they add up without header operations", false, []string{"1", "2"}},
		{"the first attempt's stays with header operations", true, []string{"1"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var attempts recorder[[]string]
			selects := 0
			proxy := proxyTo(t, hooks{
				choose: func(pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
					selects++
					r.Header.Add("X-Attempt", string(rune('0'+selects)))
					return pool[0]
				},
				roundTrip: func(r *http.Request) (*http.Response, error) {
					attempts.add(slices.Clone(r.Header["X-Attempt"]))
					return refuse(r)
				},
			}, object{"retries": 1}, "127.0.0.1:1")
			if test.ops {
				proxy["headers"] = object{"request": object{"set": object{"X-Other": []string{"y"}}}}
			}
			url := load(t, []object{proxy})

			post(t, url, "")
			seen := attempts.list()
			if len(seen) != 2 || !slices.Equal(seen[0], []string{"1"}) || !slices.Equal(seen[1], test.second) {
				t.Errorf("the attempts carried %v, want [[1] %v]", seen, test.second)
			}
		})
	}
}

// Caddy fills the *handler's* request again after it evaluated the placeholder,
// but sends the clone, whose body is then empty.
func TestPlaceholderBodyInSelectBreaksTheRequest(t *testing.T) {
	server := backend(t, echo)
	var evaluated string
	url := load(t, []object{proxyTo(t, hooks{
		choose: func(pool reverseproxy.UpstreamPool, r *http.Request, _ http.ResponseWriter) *reverseproxy.Upstream {
			repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
			evaluated = repl.ReplaceAll("{http.request.body}", "")
			return pool[0]
		},
	}, nil, server.URL)})

	got := post(t, url, "hello")
	if evaluated != "hello" {
		t.Fatalf("the placeholder gave %q in Select, want the body", evaluated)
	}
	if got.status != http.StatusBadGateway {
		t.Errorf("got %d %q, want 502: the placeholder may be usable in Select now", got.status, got.body)
	}
}

// Header names with an underscore never reach a handler, so ours have hyphens.
func TestHeadersWithUnderscoreAreDeleted(t *testing.T) {
	var seen http.Header
	url := load(t, []object{inFront(t, func(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
		seen = r.Header.Clone()
		return nil
	})})

	req, err := http.NewRequest(http.MethodPost, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header["Llm_tenant"] = []string{"a"}
	req.Header["Llm-Tenant"] = []string{"b"}
	res, err := client(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()

	if _, kept := seen["Llm_tenant"]; kept {
		t.Error("the header with an underscore reached the handler")
	}
	if got := seen.Get("Llm-Tenant"); got != "b" {
		t.Errorf("the header with a hyphen is %q, want b", got)
	}
}
