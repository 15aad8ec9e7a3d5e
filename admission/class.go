package admission

import (
	"fmt"
	"net/http"
	"regexp"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/caddy-llmlb/caddy-llmlb/queue"
)

// Class is a service level, and which requests get it. If it has both a header
// and an expression, a request must meet both; if it has neither, it is what all
// requests belong to that no other class takes.
type Class struct {
	// What logs, metrics and the status page call it: a letter, and then up to 62
	// letters, digits, '_' and '-'.
	Name string `json:"name"`

	// A request header, and the value with which it claims the class. It counts
	// only on requests that come from one of the server's trusted_proxies, and
	// only if they have it once. Default: none.
	Header string `json:"header,omitempty"`
	Value  string `json:"value,omitempty"`

	// An expression (CEL) over the request, as in Caddy's matcher "expression".
	// Default: none.
	Expression string `json:"expression,omitempty"`

	// The part of the work that the class gets at least while it has requests
	// waiting, whatever the classes before it want: 0 to 0.5; together at most
	// 0.9. Default: 0 for the class that is served first, 0.05 for the others.
	Share *float64 `json:"share,omitempty"`

	// How long after its arrival a request of the class may still wait. Default:
	// 15 minutes for a class called "background", the queue's max_wait for the
	// others, and for all where that is 0.
	MaxWait *caddy.Duration `json:"max_wait,omitempty"`

	// How long after its arrival a request of the class is worth starting. One
	// that cannot begin by then is answered at once. Default: 0, none.
	Deadline caddy.Duration `json:"deadline,omitempty"`

	// How busy the pool may be when the class's requests are to start: 1 is as
	// much as it can do without waiting. Above it they wait. 0 is however busy it
	// is. Default: 1 for a class called "background", 0 for the others.
	Saturation *float64 `json:"saturation,omitempty"`
}

const (
	maxClasses    = 16
	maxShare      = 0.5
	maxShares     = 0.9
	maxSaturation = 10 // where nobody ever was: more is meant as percent

	defaultShare          = 0.05
	backgroundMaxWait     = 15 * time.Minute
	backgroundSaturation  = 1
	interactive           = "interactive"
	background            = "background"
	defaultClass          = "default"
	untrustedClassMessage = "a class header was ignored: the request does not come from one of the server's trusted_proxies"
)

var className = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,62}$`)

func (c *Class) conditional() bool { return c.Header != "" || c.Expression != "" }

func (h *Handler) checkClasses() error {
	if len(h.Classes) > maxClasses {
		return fmt.Errorf("class: there are %d; have at most %d", len(h.Classes), maxClasses)
	}
	rest := ""
	seen := make(map[string]bool, len(h.Classes))
	for i := range h.Classes {
		c := &h.Classes[i]
		if err := c.check(); err != nil {
			return err
		}
		if seen[c.Name] {
			return fmt.Errorf("class: '%s' is given twice", c.Name)
		}
		seen[c.Name] = true
		if c.MaxWait != nil && *c.MaxWait > 0 && h.calls() == 0 {
			return fmt.Errorf("class '%s': max_wait, and a queue in which nothing may wait, contradict each other", c.Name)
		}
		if c.conditional() {
			continue
		}
		if rest != "" {
			return fmt.Errorf("class: '%s' and '%s' both have neither header nor expression; only one can be what all other requests belong to", rest, c.Name)
		}
		rest = c.Name
	}
	if rest == "" && seen[interactive] && seen[defaultClass] {
		return fmt.Errorf("class: one must have neither header nor expression, for all other requests: neither '%s' nor '%s' is left as a name for it", interactive, defaultClass)
	}
	sum := 0.0
	for _, c := range h.ranked() {
		sum += c.Share
	}
	if sum > maxShares+1e-9 {
		return fmt.Errorf("class: the shares are %.0f%% together; have at most %.0f%%", 100*sum, 100*maxShares)
	}
	return nil
}

func (c *Class) check() error {
	switch {
	case !className.MatchString(c.Name):
		return fmt.Errorf("class: %q is not a name: a letter, and then letters, digits, '_' and '-', 63 at most", c.Name)
	case c.Header == "" && c.Value != "":
		return fmt.Errorf("class '%s': value %q has no header", c.Name, c.Value)
	case c.Header != "" && !httpguts.ValidHeaderFieldName(c.Header):
		return fmt.Errorf("class '%s': header: %q is not the name of a header", c.Name, c.Header)
	case c.Header != "" && (c.Value == "" || !printable(c.Value)):
		return fmt.Errorf("class '%s': header: %q is not a value that %s can have", c.Name, c.Value, c.Header)
	case c.Share != nil && !(*c.Share >= 0 && *c.Share <= maxShare):
		return fmt.Errorf("class '%s': share: %v is out of range; have 0 to %v", c.Name, *c.Share, maxShare)
	case c.MaxWait != nil && *c.MaxWait < 0:
		return fmt.Errorf("class '%s': max_wait: %v is negative", c.Name, time.Duration(*c.MaxWait))
	case c.Deadline < 0:
		return fmt.Errorf("class '%s': deadline: %v is negative", c.Name, time.Duration(c.Deadline))
	case c.Saturation != nil && !(*c.Saturation >= 0 && *c.Saturation <= maxSaturation):
		return fmt.Errorf("class '%s': saturation: %v is out of range; have 0 to %v, 1 being all that the pool can take", c.Name, *c.Saturation, maxSaturation)
	}
	return nil
}

// ranked returns the classes in the order in which they are served, with the one
// for all other requests, if every class has conditions, at its place.
func (h *Handler) ranked() []*queue.Class {
	implied, first, all := true, true, make([]*queue.Class, 0, len(h.Classes)+1)
	for i := range h.Classes {
		implied = implied && h.Classes[i].conditional()
		first = first && h.Classes[i].Name != interactive
	}
	if implied && first {
		all = append(all, h.queued(&Class{Name: interactive}, 0))
	}
	for i := range h.Classes {
		all = append(all, h.queued(&h.Classes[i], len(all)))
	}
	if implied && !first {
		all = append(all, h.queued(&Class{Name: defaultClass}, len(all)))
	}
	return all
}

// queued is the class as the queue knows it.
func (h *Handler) queued(c *Class, rank int) *queue.Class {
	q := &queue.Class{Name: c.Name, Rank: rank, MaxWait: h.maxWait(), Deadline: time.Duration(c.Deadline)}
	if rank > 0 {
		q.Share = defaultShare
	}
	if c.Name == background {
		q.Saturation = backgroundSaturation
		if h.maxWait() > 0 {
			q.MaxWait = backgroundMaxWait
		}
	}
	if c.Share != nil {
		q.Share = *c.Share
	}
	if c.Saturation != nil {
		q.Saturation = *c.Saturation
	}
	if c.MaxWait != nil {
		q.MaxWait = time.Duration(*c.MaxWait)
	}
	return q
}

// sort tells which requests belong to a class.
type sort struct {
	class         *queue.Class
	header, value string // in canonical form; "" without
	expression    *caddyhttp.MatchExpression
}

// provisionClasses makes the classes ready. The expressions are compiled here: a
// mistake in one of them keeps the configuration from loading.
func (h *Handler) provisionClasses(ctx caddy.Context) error {
	h.classes = h.ranked()
	byName := make(map[string]*Class, len(h.Classes))
	for i := range h.Classes {
		byName[h.Classes[i].Name] = &h.Classes[i]
	}
	for _, q := range h.classes {
		c := byName[q.Name]
		if c == nil || !c.conditional() {
			h.others = q
			continue
		}
		s := sort{class: q, header: http.CanonicalHeaderKey(c.Header), value: c.Value}
		if c.Expression != "" {
			s.expression = &caddyhttp.MatchExpression{Expr: c.Expression}
			if err := s.expression.Provision(ctx); err != nil {
				return fmt.Errorf("class '%s': expression: %w", c.Name, err)
			}
		}
		h.sorts = append(h.sorts, s)
	}
	return nil
}

// classify returns the class of the request.
func (h *Handler) classify(r *http.Request) *queue.Class {
	for i := range h.sorts {
		if s := &h.sorts[i]; h.claims(s, r) && h.meets(s, r) {
			return s.class
		}
	}
	return h.others
}

// claims reports whether the request has the class's header, from somebody who
// may say so. A header that is there twice does not count: a proxy that adds its
// own to the client's would let the client choose.
func (h *Handler) claims(s *sort, r *http.Request) bool {
	if s.header == "" {
		return true
	}
	values := r.Header[s.header]
	if len(values) != 1 || values[0] != s.value {
		return false
	}
	if trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool); trusted {
		return true
	}
	// Once: whoever is not trusted could fill the log.
	if !h.doubted.Swap(true) {
		h.logger.Warn(untrustedClassMessage, zap.String("class", s.class.Name), zap.String("header", s.header))
	}
	return false
}

// meets reports whether the class's expression holds for the request.
func (h *Handler) meets(s *sort, r *http.Request) bool {
	if s.expression == nil {
		return true
	}
	matches, err := s.expression.MatchWithError(r)
	if err != nil {
		if c := h.logger.Check(zap.DebugLevel, "evaluating a class's expression"); c != nil {
			c.Write(zap.String("class", s.class.Name), zap.Error(err))
		}
		return false
	}
	return matches
}
