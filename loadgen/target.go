package loadgen

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// resolver is what net.DefaultResolver does for us.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// target reads the URL and adds the API's usual path where it has none.
func target(text, api string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil && !strings.Contains(text, "://"): // such as 127.0.0.1:8080
		u = new(url.URL)
	case err != nil:
		return nil, fmt.Errorf("reading target %q: %w", text, err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("reading target %q: have a URL such as http://127.0.0.1:8080", text)
	}
	if u.User != nil {
		return nil, errors.New("reading target: it has a password in it; use --api-key-env or -H")
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/chat/completions"
		if api == completions {
			u.Path = "/v1/completions"
		}
	}
	return u, nil
}

// errRemote is why a target is refused.
type errRemote struct{ host, address string }

func (e errRemote) Error() string {
	at := e.host
	if e.address != e.host {
		at += " (" + e.address + ")"
	}
	return fmt.Sprintf("%s is not on this machine: load on somebody else's servers can cost money and disturb people; "+
		"if they are yours and you mean it, add --yes-remote", at)
}

// checkLocal refuses a host that has an address elsewhere.
func checkLocal(ctx context.Context, r resolver, host string) error {
	if a, err := netip.ParseAddr(host); err == nil {
		if !a.Unmap().IsLoopback() {
			return errRemote{host, host}
		}
		return nil
	}
	addresses, err := r.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("looking up %q: %w", host, err)
	}
	for _, a := range addresses {
		if !a.Unmap().IsLoopback() {
			return errRemote{host, a.String()}
		}
	}
	return nil
}

// newTransport is for many long streams to one host. It takes no proxy from the
// environment, which would be another target, and follows no redirect.
func newTransport(remote, insecure, http2 bool, conns int) *http.Transport {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if !remote {
		// A name may resolve to something else than it did when it was checked.
		d.Control = func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || !a.Addr().Unmap().IsLoopback() {
				return errRemote{address, address}
			}
			return nil
		}
	}
	return &http.Transport{
		DialContext:         d.DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: insecure}, //nolint:gosec // only as --insecure says
		TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2:   http2,
		DisableCompression:  true,
		MaxIdleConns:        conns,
		MaxIdleConnsPerHost: conns,
		IdleConnTimeout:     4 * time.Second, // before an engine's own 5 s ends one under a request
	}
}
