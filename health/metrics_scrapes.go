package health

import (
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// kind is the word that metrics have for the reason. A reason itself is no label:
// it has numbers in it, and what a server calls its page.
func (r reason) kind() llmlb.ScrapeFailure {
	text := string(r)
	switch {
	case strings.HasPrefix(text, "timeout"):
		return llmlb.ScrapeTimeout
	case strings.HasPrefix(text, "x509:"), strings.HasPrefix(text, "tls:"), text == "server does not speak TLS":
		return llmlb.ScrapeTLS
	case len(text) >= 3 && strings.Trim(text[:3], "0123456789") == "" && (len(text) == 3 || text[3] == ':'):
		return llmlb.ScrapeStatus
	case r == familyNotFound, r == notReady:
		return llmlb.ScrapeNoLoad
	case r == tooLarge, r == brokenJSON, strings.HasPrefix(text, "not "), strings.HasPrefix(text, "damaged"), strings.HasPrefix(text, "broken"):
		return llmlb.ScrapeFormat
	case strings.HasPrefix(text, "value out of range"):
		return llmlb.ScrapeValue
	}
	return llmlb.ScrapeUnreachable
}
