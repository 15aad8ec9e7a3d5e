package health

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/gzip"
)

// reason says in a few words why a scrape told nothing: fit for a table, a log
// line and an API. It never carries anything the server sent, except a media
// type and a status code. Empty means that nothing went wrong.
type reason string

// maxReason bounds a reason's length.
const maxReason = 80

const (
	familyNotFound reason = "family not found: no known engine's metrics on the page"
	badAddress     reason = "address cannot be dialed"
	badAuth        reason = "bearer token holds a character that no header may"
	tooLarge       reason = "page over 8 MiB"
	notReady       reason = "engine is not ready: it has reported no cache yet"
	brokenJSON     reason = "broken JSON"
)

// outOfRange names a family of the dialect's with a value that cannot be.
func outOfRange(family string) reason { return reason("value out of range: " + family) }

func statusReason(code int) reason {
	switch code {
	case http.StatusUnauthorized, http.StatusForbidden:
		return reason(strconv.Itoa(code) + ": check upstream_auth")
	}
	return reason(strconv.Itoa(code))
}

// contentReason says that a page is of another kind.
func contentReason(mediaType string) reason {
	return reason("not a metrics page (" + mediaWords(mediaType) + ")")
}

// mediaWords keeps only what can be part of a media type.
func mediaWords(mediaType string) string {
	const longest = 40
	mediaType, _, _ = strings.Cut(mediaType, ";")
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', strings.ContainsRune("/+.-", r):
			return r
		}
		return -1
	}, strings.ToLower(mediaType))
	return clean[:min(len(clean), longest)]
}

// phrases are what the text of an error tells where its type does not: Caddy's
// transport hides the cause of a failed dial.
var phrases = []string{
	"connection refused", "connection reset", "no such host", "no route to host", "network is unreachable",
	"no such file or directory", "permission denied",
}

// errorReason puts an error of an exchange in the operator's words.
func errorReason(err error, limit time.Duration) reason {
	if errors.Is(err, context.DeadlineExceeded) {
		return reason("timeout after " + limit.String())
	}
	for _, known := range []struct {
		cause error
		words reason
	}{
		{syscall.ECONNREFUSED, "connection refused"},
		{syscall.ECONNRESET, "connection reset"},
		{syscall.EPIPE, "connection closed"},
		{syscall.EHOSTUNREACH, "no route to host"},
		{syscall.ENETUNREACH, "network is unreachable"},
		{syscall.ENOENT, "no such socket"},
		{syscall.EACCES, "permission denied"},
		{io.EOF, "connection closed"},
		{io.ErrUnexpectedEOF, "connection closed"},
		{gzip.ErrHeader, "not gzip, though it says so"},
		{gzip.ErrChecksum, "damaged gzip"},
	} {
		if errors.Is(err, known.cause) {
			return known.words
		}
	}
	if r := tlsReason(err); r != "" {
		return r
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			return "no such host"
		}
		return "name lookup failed"
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return "timeout"
	}
	text := err.Error()
	for _, p := range phrases {
		if strings.Contains(text, p) {
			return reason(p)
		}
	}
	return "broken answer"
}

func tlsReason(err error) reason {
	var (
		authority x509.UnknownAuthorityError
		host      x509.HostnameError
		invalid   x509.CertificateInvalidError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		verify    *tls.CertificateVerificationError
	)
	switch {
	case errors.As(err, &authority):
		return "x509: certificate signed by unknown authority"
	case errors.As(err, &host):
		return "x509: certificate is for another name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "x509: certificate has expired or is not yet valid"
	case errors.As(err, &invalid), errors.As(err, &verify):
		return "x509: certificate is not valid"
	case errors.As(err, &record):
		return "server does not speak TLS"
	case errors.As(err, &alert):
		return reason(fmt.Sprintf("%.*s", maxReason, alert.Error())) // one of Go's fixed texts
	}
	return ""
}
