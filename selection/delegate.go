package selection

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// policyNamespace is that of Caddy's own policies, which strategy takes too.
const policyNamespace = "http.reverse_proxy.selection_policies"

// policyNames lists the policies that strategy takes beside our own.
func policyNames() []string {
	return slices.DeleteFunc(namesIn(policyNamespace), func(name string) bool { return name == "llm" })
}

// delegated returns the name of the policy that is to choose, "" when one of our
// own strategies does.
func (p *Policy) delegated() string {
	var named struct {
		Policy string `json:"policy"`
	}
	_ = json.Unmarshal(p.SelectionPolicyRaw, &named) // what cannot be read has no name
	return named.Policy
}

// checkStrategy refuses what nobody can choose by.
func (p *Policy) checkStrategy() error {
	name := p.Strategy
	if p.SelectionPolicyRaw != nil {
		if name != "" {
			return fmt.Errorf("strategy %q and selection_policy %q contradict each other: both say how a server is chosen", name, p.delegated())
		}
		name = p.delegated()
		return checkDelegated(name)
	}
	switch {
	case name == "" || slices.Contains(Strategies(), name):
		return nil
	case slices.Contains(policyNames(), name):
		return fmt.Errorf(`strategy %q is a policy of Caddy's, which has options: write "selection_policy": {"policy": %q}`, name, name)
	}
	return unknownStrategy(name)
}

func checkDelegated(name string) error {
	if name == "llm" {
		return fmt.Errorf("strategy %q is this policy itself, which cannot choose by itself; have %s", name, strategiesInWords())
	}
	if !slices.Contains(policyNames(), name) {
		return unknownStrategy(name)
	}
	return nil
}

func unknownStrategy(name string) error {
	return fmt.Errorf("unknown strategy %q; have %s", name, strategiesInWords())
}

// strategiesInWords lists what strategy takes.
func strategiesInWords() string {
	return strings.Join(Strategies(), ", ") + ", or any Caddy policy: " + strings.Join(policyNames(), ", ")
}

// loadSelector loads the policy that is to choose, if one is.
func (p *Policy) loadSelector(ctx caddy.Context) error {
	if p.SelectionPolicyRaw == nil {
		return nil
	}
	name := p.delegated()
	mod, err := ctx.LoadModule(p, "SelectionPolicyRaw")
	if err != nil {
		return fmt.Errorf("loading strategy %q: %w", name, err)
	}
	selector, ok := mod.(reverseproxy.Selector)
	if !ok {
		return fmt.Errorf("the module %s.%s, a %T, is no policy", policyNamespace, name, mod)
	}
	p.selector = selector
	return nil
}

// vacant says whether some endpoint could take the Call at all, without choosing
// one: admission must know before it lets the Call go on to a policy of Caddy's.
func (ch *choice) vacant() Verdict {
	ch.survey()
	return ch.filter()
}

// delegate has a policy of Caddy's choose among the usable upstreams, and
// reserves there. Ours is the filter: draining, down, limits, models, zones and
// what failed for this Call; what is left is its to choose from.
//
// It is asked under the pool's lock, so that no two Calls are given the same
// free place; Caddy's policies neither wait nor call back.
func (ch *choice) delegate(selector reverseproxy.Selector, upstreams reverseproxy.UpstreamPool, r *http.Request, w http.ResponseWriter) (*seat, Verdict) {
	if v := ch.vacant(); v != Granted {
		return nil, v
	}
	ch.withinShare()
	usable := make(reverseproxy.UpstreamPool, len(ch.left))
	for i, s := range ch.left {
		usable[i] = upstreams[s.upstream]
	}
	i := slices.Index(usable, selector.Select(usable, r, w))
	if i < 0 {
		return nil, None // it wants none of them
	}
	ch.learned()
	ch.score()
	ch.findHome()
	picked, reason, warm := ch.left[i], llmlb.ReasonPolicy, ch.markWarm()
	if ch.usable == 1 {
		reason = llmlb.ReasonOnly
	}
	ch.book(picked, ch.decision(picked, reason, warm))
	return picked, Granted
}

// unsay takes back what a policy of Caddy's wrote into the response for an
// attempt that failed since: a cookie that leads to that server, for one.
func (s *serving) unsay(w http.ResponseWriter) {
	if s.policy.selector == nil || w == nil {
		return
	}
	if s.header == nil {
		s.header = w.Header().Clone()
		if s.header == nil {
			s.header = make(http.Header)
		}
		return
	}
	clear(w.Header())
	maps.Copy(w.Header(), s.header.Clone())
}

// vacancy is Grant for a pool in which a policy of Caddy's chooses.
func vacancy(c *llmlb.Call, now time.Time, hold bool) Verdict {
	ch := newChoice(c, indexOf(c.Pool), now)
	defer ch.free()
	c.Pool.Lock()
	defer c.Pool.Unlock()
	ch.addMembers()
	if v := ch.vacant(); v != Granted {
		return v
	}
	if hold && !ch.onlyRoom() {
		return Busy
	}
	return Later
}
