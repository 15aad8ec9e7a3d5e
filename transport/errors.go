package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// attemptError is a failed attempt that must not be repeated. It hides what it
// was made from: an error that wraps context.Canceled would be taken by the
// proxy loop for a client that left, though the client still waits.
type attemptError struct {
	text    string
	timeout bool
}

func (e *attemptError) Error() string { return e.text }

// Timeout makes reverse_proxy answer 504 rather than 502.
func (e *attemptError) Timeout() bool { return e.timeout }

// Temporary completes net.Error, which is what reverse_proxy looks for.
func (e *attemptError) Temporary() bool { return false }

// broken describes an attempt that failed after the request may have been read.
func broken(err error) error {
	var ne net.Error
	return &attemptError{
		text:    "waiting for the answer: " + err.Error(),
		timeout: errors.As(err, &ne) && ne.Timeout(),
	}
}

// unsent makes err one that reverse_proxy may retry whatever the method: no
// connection was made, so nobody can have read the request. Dial errors are
// that already; a failed TLS handshake is not.
func unsent(err error) error {
	if _, ok := errors.AsType[reverseproxy.DialError](err); ok {
		return err
	}
	return reverseproxy.NewDialError(errors.New("connecting: " + err.Error()))
}

// reason puts into a few words for the operator's table why an endpoint could
// not be reached. The address is in the table already.
func reason(err error) string {
	var (
		dns     *net.DNSError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		invalid x509.CertificateInvalidError
		ne      net.Error
	)
	switch {
	case err == nil:
		return "cannot connect"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "connection refused"
	case errors.As(err, &dns):
		return "name not resolved"
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return "no route"
	case errors.As(err, &unknown):
		return "certificate not trusted"
	case errors.As(err, &host):
		return "certificate is for another name"
	case errors.As(err, &invalid):
		return "certificate invalid"
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "connecting timed out"
	case errors.Is(err, syscall.ECONNRESET):
		return "connection reset"
	case strings.HasPrefix(err.Error(), "tls: "), strings.HasPrefix(err.Error(), "remote error: tls"):
		return "TLS handshake failed"
	}
	return "cannot connect"
}
