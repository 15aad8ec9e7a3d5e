package loadgen

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
)

func TestTarget(t *testing.T) {
	for _, tc := range []struct{ text, api, want string }{
		{"http://127.0.0.1:8080", chat, "http://127.0.0.1:8080/v1/chat/completions"},
		{"https://localhost/", completions, "https://localhost/v1/completions"},
		{"http://[::1]:8000/team-a/v1/chat/completions", chat, "http://[::1]:8000/team-a/v1/chat/completions"},
	} {
		got, err := target(tc.text, tc.api)
		if err != nil || got.String() != tc.want {
			t.Errorf("%s is %v, %v; expected %s", tc.text, got, err, tc.want)
		}
	}
	for _, bad := range []string{"", "127.0.0.1:8080", "ftp://127.0.0.1", "http://", "http://user:secret@127.0.0.1", "http://%zz"} {
		if u, err := target(bad, chat); err == nil {
			t.Errorf("%q was read as %s", bad, u)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
	if _, err := target("127.0.0.1:8080", chat); err == nil || !strings.Contains(err.Error(), "have a URL such as http://") {
		t.Errorf("%v does not say what to write", err)
	}
}

type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) (out []netip.Addr, err error) {
	for _, a := range n[host] {
		out = append(out, netip.MustParseAddr(a))
	}
	if out == nil {
		err = errors.New("no such host")
	}
	return out, err
}

// Load goes to this machine unless one says that one means it, whatever the name.
func TestRemoteTargetsAreRefused(t *testing.T) {
	known := names{
		"localhost": {"127.0.0.1", "::1"}, "gpu.test": {"10.4.0.11"}, "api.test": {"203.0.113.7", "2001:db8::7"},
		"mixed.test": {"127.0.0.1", "198.51.100.4"}, "inner.test": {"127.8.8.8"},
	}
	for _, tc := range []struct {
		host  string
		local bool
	}{
		{"127.0.0.1", true},
		{"127.9.9.9", true},
		{"::1", true},
		{"::ffff:127.0.0.1", true},
		{"localhost", true},
		{"inner.test", true},
		{"10.4.0.11", false},
		{"192.168.1.1", false},
		{"0.0.0.0", false},
		{"::ffff:10.0.0.1", false},
		{"2001:db8::1", false},
		{"gpu.test", false},
		{"api.test", false},
		{"mixed.test", false},
		{"unknown.test", false},
	} {
		t.Run(tc.host, func(t *testing.T) {
			err := checkLocal(t.Context(), known, tc.host)
			if local := err == nil; local != tc.local {
				t.Errorf("local: %v, %v", local, err)
			}
			if remote := new(errRemote); errors.As(err, remote) && !strings.Contains(err.Error(), "--yes-remote") {
				t.Errorf("%v does not say what to do", err)
			}
		})
	}
}

// A name that resolved to this machine when it was checked may resolve elsewhere
// when it is dialed.
func TestDialRefusesRemoteAddresses(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://192.0.2.1:9/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := newTransport(false, false, false, 1).RoundTrip(r)
	if err == nil {
		resp.Body.Close()
	}
	if remote := new(errRemote); !errors.As(err, remote) {
		t.Errorf("dialing a remote address gave %v", err)
	}
}

func TestInsecureTakesAnyCertificate(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Proto", r.Proto)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0) // of the client that does not trust it
	srv.StartTLS()
	defer srv.Close()
	for _, insecure := range []bool{false, true} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL, bytes.NewReader([]byte("{}")))
		if err != nil {
			t.Fatal(err)
		}
		tr := newTransport(false, insecure, false, 1)
		resp, err := tr.RoundTrip(r)
		if took := err == nil; took != insecure {
			t.Errorf("insecure %v: %v", insecure, err)
		}
		if err == nil {
			resp.Body.Close()
		}
		tr.CloseIdleConnections()
	}
}
