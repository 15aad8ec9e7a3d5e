package selection

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// settings makes the pool's settings of what the policy says and what the proxy
// it stands in lists. The proxy is not provisioned yet: it has no transport.
func (p *Policy) settings(proxy *reverseproxy.Handler) (*llmlb.Settings, error) {
	token, err := bearer(p.UpstreamAuth)
	if err != nil {
		return nil, err
	}
	zone, err := p.zone()
	if err != nil {
		return nil, err
	}
	strategy := p.strategy()
	s := &llmlb.Settings{
		Pool:        cmp.Or(p.Pool, llmlb.DefaultPool),
		Dynamic:     proxy.DynamicUpstreamsRaw != nil || proxy.DynamicUpstreams != nil,
		Strategy:    strategy,
		Delegated:   p.SelectionPolicyRaw != nil,
		Zone:        zone,
		ORCA:        p.ORCA,
		Retries:     retries(proxy),
		Circuit:     p.Circuit.settings(),
		Affinity:    cmp.Or(p.Affinity, llmlb.DefaultAffinity),
		MinTokens:   cmp.Or(p.AffinityMinTokens, llmlb.DefaultMinTokens),
		KVLimit:     cmp.Or(p.KVLimit, llmlb.DefaultKVLimit),
		AffinityKey: xxhash.Sum64String("caddy-llmlb\x00" + p.AffinityKey),
		Scrape: llmlb.Scrape{
			Engine:     cmp.Or(p.Engine, "auto"),
			Metrics:    p.Metrics,
			Interval:   cmp.Or(time.Duration(p.ScrapeInterval), llmlb.DefaultInterval),
			StaleAfter: cmp.Or(time.Duration(p.StaleAfter), llmlb.DefaultStaleAfter),
			Bearer:     token,
		},
		SLO:      p.SLO.settings(),
		Checks:   p.checks(),
		Upstream: func() (http.RoundTripper, string) { return upstreamOf(proxy) },
		Where:    "lb_policy llm in reverse_proxy " + strings.Join(dials(proxy), " "),
	}
	if strategy == StrategyPrefixSpill {
		s.SpillWaiting, s.SpillTTFT = llmlb.DefaultSpillWaiting, llmlb.DefaultSpillTTFT
	}
	if p.SpillWaiting != nil {
		s.SpillWaiting = *p.SpillWaiting
	}
	if p.SpillTTFT != nil {
		s.SpillTTFT = time.Duration(*p.SpillTTFT)
	}
	if err := p.addMembers(s, proxy); err != nil {
		return nil, err
	}
	s.Fingerprint = p.fingerprint(proxy)
	s.Reach = hashed(proxy.TransportRaw, proxy.Transport, proxy.Headers, proxy.Rewrite)
	return s, nil
}

// retries is how many attempts of a request may follow the first. A proxy that
// tries for a time does so without counting; no server is tried twice as it is.
func retries(proxy *reverseproxy.Handler) int {
	lb := proxy.LoadBalancing
	switch {
	case lb == nil:
		return 0
	case lb.Retries == 0 && lb.TryDuration > 0:
		return math.MaxInt
	}
	return max(0, lb.Retries)
}

// strategy is what chooses: one of our own, or the name of another of Caddy's
// policies.
func (p *Policy) strategy() string { return cmp.Or(p.delegated(), p.Strategy, StrategyWork) }

// zone returns the zone of this gateway, without placeholders, after checking
// that zones are said on both sides: one side alone would mean nothing.
func (p *Policy) zone() (string, error) {
	var zones []string
	for _, e := range p.Endpoints {
		if e.Zone == "" || slices.Contains(zones, e.Zone) {
			continue
		}
		if p.LocalZone == "" {
			return "", fmt.Errorf("endpoint %q: zone %q means nothing without local_zone, the zone of this gateway", e.Upstream, e.Zone)
		}
		zones = append(zones, e.Zone)
	}
	if p.LocalZone == "" {
		return "", nil
	}
	zone, err := caddy.NewReplacer().ReplaceOrErr(p.LocalZone, true, true)
	if err != nil {
		return "", fmt.Errorf("resolving local_zone: %w", err)
	}
	if err := checkName("local_zone", zone); err != nil {
		return "", err
	}
	if len(zones) == 0 {
		return "", fmt.Errorf("local_zone %q means nothing: no endpoint has a zone", zone)
	}
	if !slices.Contains(zones, zone) {
		return "", fmt.Errorf("local_zone %q is the zone of no endpoint; have %s", zone, strings.Join(zones, ", "))
	}
	return zone, nil
}

// addMembers lists the proxy's static upstreams, with what the policy says
// about each. Beside dynamic upstreams they are only what is fallen back to,
// and come and go like those.
func (p *Policy) addMembers(s *llmlb.Settings, proxy *reverseproxy.Handler) error {
	more := make(map[string]*Endpoint, len(p.Endpoints))
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		if s.Dynamic {
			return fmt.Errorf("endpoint %q: upstreams of this proxy are dynamic, and a dynamic upstream cannot have options of its own", e.Upstream)
		}
		u := match(proxy, e.Upstream)
		if u == nil {
			return fmt.Errorf("endpoint %q is no upstream of this proxy; have %s", e.Upstream, strings.Join(dials(proxy), ", "))
		}
		if more[u.Dial] != nil {
			return fmt.Errorf("endpoint %q is described twice", e.Upstream)
		}
		more[u.Dial] = e
	}
	if s.Dynamic {
		return nil
	}
	if len(proxy.Upstreams) == 0 {
		return fmt.Errorf("pool %q has no upstreams", s.Pool)
	}
	seen := make(map[string]bool, len(proxy.Upstreams))
	for _, u := range proxy.Upstreams {
		if strings.ContainsAny(u.Dial, "{}") {
			return fmt.Errorf("upstream %q holds a placeholder: the servers of a pool must be known when the configuration is loaded; use {$NAME} for an environment variable, or dynamic upstreams", u.Dial)
		}
		if seen[u.Dial] {
			return fmt.Errorf("upstream %q is listed twice", u.Dial)
		}
		seen[u.Dial] = true
		m := llmlb.Member{Address: u.Dial, Available: u.Available}
		if e := more[u.Dial]; e != nil {
			m.Name, m.MaxConcurrent, m.MaxTokens = e.Name, e.MaxConcurrent, e.MaxTokens
			m.Weight, m.Zone, m.Drain = e.Weight, e.Zone, e.Drain
		}
		s.Members = append(s.Members, m)
	}
	return nil
}

// match finds the upstream that an endpoint line means. It may be written as
// upstreams are: with a scheme, and without the scheme's own port.
func match(proxy *reverseproxy.Handler, name string) *reverseproxy.Upstream {
	scheme, rest, found := strings.Cut(name, "://")
	if !found {
		scheme, rest = "", name
	}
	port := "80"
	if scheme == "https" {
		port = "443"
	}
	for _, u := range proxy.Upstreams {
		if u.Dial == name || u.Dial == rest || u.Dial == rest+":"+port {
			return u
		}
	}
	return nil
}

func dials(proxy *reverseproxy.Handler) []string {
	list := make([]string, 0, len(proxy.Upstreams))
	for _, u := range proxy.Upstreams {
		list = append(list, u.Dial)
	}
	if len(list) == 0 {
		list = append(list, "dynamic")
	}
	return list
}

// upstreamOf returns the proxy's transport and the scheme that it speaks.
func upstreamOf(proxy *reverseproxy.Handler) (http.RoundTripper, string) {
	if t, ok := proxy.Transport.(reverseproxy.TLSTransport); ok && t.TLSEnabled() {
		return proxy.Transport, "https"
	}
	return proxy.Transport, "http"
}

// fingerprint is equal for two policies that describe the same pool: by their
// options, and by the proxy's upstreams, its retries, and its transport, which
// scrapes use.
func (p *Policy) fingerprint(proxy *reverseproxy.Handler) string {
	return hashed(p, dials(proxy), proxy.DynamicUpstreamsRaw, retries(proxy), proxy.Transport)
}

// hashed is equal for things that are written alike.
func hashed(things ...any) string {
	h := xxhash.New()
	for _, v := range things {
		said, err := json.Marshal(v)
		if err != nil { // a transport that cannot be written down
			said = fmt.Appendf(nil, "%T", v)
		}
		_, _ = h.Write(append(said, 0))
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// bearer returns the token of an upstream_auth value as it is written, after
// checking that its placeholders resolve: health resolves them at each scrape,
// so that a token which is replaced on disk needs no reload. Errors name the
// placeholder at fault, never the token.
func bearer(auth string) (string, error) {
	if auth == "" {
		return "", nil
	}
	scheme, token, _ := strings.Cut(auth, " ")
	if !strings.EqualFold(scheme, "bearer") || token == "" {
		return "", fmt.Errorf("upstream_auth takes 'bearer' and a token")
	}
	now, err := caddy.NewReplacer().ReplaceOrErr(token, true, true)
	if err != nil {
		return "", fmt.Errorf("resolving the token of upstream_auth: %w", err)
	}
	now = strings.TrimSpace(now) // files end with a newline
	if now == "" || strings.ContainsFunc(now, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return "", fmt.Errorf("the token of upstream_auth must be printable ASCII without spaces")
	}
	return token, nil
}
