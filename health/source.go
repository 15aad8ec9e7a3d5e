package health

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
)

// source is a parsed value of the option "metrics": where an endpoint's page
// is, relative to its address. The zero value is the dialect's own path.
type source struct {
	port string   // on the same host; "" means the upstream's own
	path string   // with query; "" means the dialect's own
	url  *url.URL // instead of both; its host may be hostMark
}

// hostMark stands in a parsed URL for {host}: a name that cannot exist.
const hostMark = "host.invalid"

func parseSource(s string) (source, error) {
	switch {
	case s == "":
		return source{}, nil
	case s[0] == '/':
		if _, err := url.ParseRequestURI(s); err != nil {
			return source{}, fmt.Errorf("parsing metrics path %q: it is not a valid path", s)
		}
		return source{path: s}, nil
	case s[0] == ':':
		port, path, _ := strings.Cut(s[1:], "/")
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return source{}, fmt.Errorf("parsing metrics address %q: %q is not a port", s, port)
		}
		if path == "" {
			return source{port: port}, nil
		}
		rest, err := parseSource("/" + path)
		rest.port = port
		return rest, err
	}
	u, err := url.Parse(strings.ReplaceAll(s, "{host}", hostMark))
	if err == nil {
		switch {
		case u.Scheme != "http" && u.Scheme != "https":
			err = errors.New("have /path, :port/path, or a URL with http or https")
		case u.Hostname() == "":
			err = errors.New("the URL has no host; {host} stands for the upstream's")
		case u.User != nil:
			// Not even the error may repeat it.
			return source{}, errors.New("parsing metrics URL: it must not hold credentials; use upstream_auth")
		}
	} else {
		err = errors.New("it is not a valid URL")
	}
	if err != nil {
		return source{}, fmt.Errorf("parsing metrics address %q: %w", s, err)
	}
	return source{url: u}, nil
}

// target is where one scrape goes.
type target struct {
	dial reverseproxy.DialInfo
	url  url.URL
	host string // the Host header

	// own says that this is the port calls go to as well, so that what is
	// learnt about reaching it holds for them.
	own bool

	// trusted says that this is the upstream's host, which may see its token, and
	// that the token is no less safe on the way than with requests.
	trusted bool

	// weaker says that this goes without TLS, and requests do not.
	weaker bool
}

// locate returns where to scrape the endpoint with the given dial address.
// scheme is the proxy's own; transport, if it can, decides per port.
func locate(address string, src source, path, scheme string, transport any) (target, error) {
	addr, err := caddy.ParseNetworkAddress(caddy.NewReplacer().ReplaceAll(address, ""))
	if err != nil || addr.PortRangeSize() != 1 {
		return target{}, errors.New("not one socket")
	}
	t := target{own: true, trusted: true}
	t.dial = reverseproxy.DialInfo{
		Network: addr.Network, Address: addr.JoinHostPort(0),
		Host: addr.Host, Port: strconv.FormatUint(uint64(addr.StartPort), 10),
	}
	host := addr.Host
	if addr.IsUnixNetwork() || addr.IsFdNetwork() {
		t.dial.Port, host = "", "localhost"
	}
	by, decides := transport.(reverseproxy.HealthCheckSchemeOverriderTransport)
	if decides {
		scheme = schemeOf(by, t.dial.Port)
	}
	t.url = url.URL{Scheme: scheme}
	path = cmp.Or(src.path, path)
	switch {
	case src.url != nil:
		t.url = *src.url
		if t.url.Hostname() != hostMark {
			host = t.url.Hostname()
		}
		path = cmp.Or(t.url.RequestURI(), path)
		port := t.url.Port()
		if port == "" {
			port = map[string]string{"http": "80", "https": "443"}[t.url.Scheme]
		}
		t.redirect(host, port, addr)
	case src.port != "":
		t.redirect(host, src.port, addr)
	}
	if decides && src.url == nil {
		t.url.Scheme = schemeOf(by, t.dial.Port)
	}
	if t.weaker = scheme == "https" && t.url.Scheme != "https"; t.weaker {
		t.trusted = false
	}
	// The connection pool of the transport is keyed by the URL's host, and Caddy
	// puts the dial address there: doing the same shares its connections, and
	// keeps two unix sockets apart.
	t.url.Host = t.dial.Address
	t.host = t.dial.Address
	if t.url.Scheme == "http" && t.dial.Port == "80" || t.url.Scheme == "https" && t.dial.Port == "443" {
		t.url.Host = hostOnly(t.dial.Host)
		t.host = t.url.Host
	}
	if t.dial.Port == "" {
		t.host = "localhost"
	}
	rel, err := url.ParseRequestURI(path)
	if err != nil {
		return target{}, errors.New("bad path")
	}
	t.url.Path, t.url.RawPath, t.url.RawQuery = rel.Path, rel.RawPath, rel.RawQuery
	return t, nil
}

// schemeOf returns how the transport speaks to a port.
func schemeOf(by reverseproxy.HealthCheckSchemeOverriderTransport, port string) string {
	u := url.URL{Scheme: "http"}
	by.OverrideHealthCheckScheme(&u, port)
	return u.Scheme
}

// redirect points the target at another socket than the upstream's own.
func (t *target) redirect(host, port string, upstream caddy.NetworkAddress) {
	sameHost := host == upstream.Host || host == "localhost" && upstream.IsUnixNetwork()
	t.trusted = sameHost
	t.own = sameHost && t.dial.Port == port
	t.dial.Network, t.dial.Host, t.dial.Port = "tcp", host, port
	t.dial.Address = net.JoinHostPort(host, port)
}

// hostOnly brackets an IPv6 address, as a URL's host needs it.
func hostOnly(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// origin returns the URL's scheme, host and port, for comparison.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
