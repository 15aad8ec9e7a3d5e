package transport

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"strings"
	"syscall"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
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

// logFailure tells the operator of an attempt that the client will hear nothing
// of when another takes its place.
func (a *attempt) logFailure(f *failure, again bool) {
	if c := a.t.logger.Check(zap.InfoLevel, "attempt failed"); c != nil {
		c.Write(append(a.fields(f.outcome), zap.Bool("another_may_follow", again), zap.Error(f.err))...)
	}
}

// logPassed tells of an answer that is given to the client though it is none.
// Overload is told only to those who want to know everything.
func (a *attempt) logPassed(status int, o llmlb.Outcome) {
	level := zap.InfoLevel
	if o == llmlb.Overloaded {
		level = zap.DebugLevel
	}
	if c := a.t.logger.Check(level, "attempt failed"); c != nil {
		c.Write(append(a.fields(o), zap.Bool("another_may_follow", false), zap.Int("status", status))...)
	}
}

// logCut tells of an answer that broke off after the client had some of it.
func (a *attempt) logCut(err error) {
	if c := a.t.logger.Check(zap.WarnLevel, "answer cut off"); c != nil {
		c.Write(append(a.fields(llmlb.Truncated), zap.Int("tokens", a.call.TokenEvents), zap.Error(err))...)
	}
}

func (a *attempt) fields(o llmlb.Outcome) []zap.Field {
	return []zap.Field{
		zap.String("pool", a.endpoint.Pool().Name()), zap.String("endpoint", a.endpoint.Name()),
		zap.String("model", a.call.Model), zap.Stringer("outcome", o), zap.Int("attempt", a.call.Attempts),
	}
}
