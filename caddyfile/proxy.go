package caddyfile

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp/timeouts"

	"github.com/caddy-llmlb/caddy-llmlb/admission"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/transport"
)

// proxy is one llm_proxy directive as it is read.
type proxy struct {
	policy    *selection.Policy
	admission *admission.Handler
	transport *transport.Transport
	retries   int

	// writeTimeout is how long a client may leave a write waiting, 0 for what
	// the server says.
	writeTimeout time.Duration

	bearer    string // what upstream_auth says, "" without
	upstreams []string
	given     map[string]int // line of every option that may be given once

	// rest are the lines for reverse_proxy, in their order and with their own
	// line numbers, and unknown leads from its first words back to the tokens.
	rest    []caddyfile.Token
	unknown map[string]caddyfile.Token
}

// parseProxy reads the shorthand. Each line of the block is optional:
//
//	llm_proxy [<matcher>] <upstreams...> {
//		# options of lb_policy llm
//		pool            <name>
//		engine          auto|vllm|sglang|llamacpp|trtllm|triton|tgi|lmdeploy|nim|none
//		metrics         <path>|:<port><path>|<url with {host}>
//		scrape_interval <duration>
//		stale_after     <duration>
//		upstream_auth   bearer <token>
//		strategy        work|prefix_spill|weighted|<another policy of Caddy's> [<its arguments and block>]
//		scorer          <name> [<weight>] [<its arguments and block>]
//		affinity        <ratio> [<min_tokens>]
//		spill_waiting   <n>|off
//		spill_ttft      <duration>|off
//		kv_limit        <percent>
//		affinity_key    <text>
//		index_bytes     <size>
//		local_zone      <zone>
//		orca            on|off
//		circuit         off
//		circuit {
//			failures <n>|off
//			rate     <percent>|off
//			open_for <duration>
//		}
//		endpoint        <upstream> {
//			name           <name>
//			weight         <factor>
//			zone           <zone>
//			max_concurrent <n>
//			max_tokens     <n>
//			drain
//		}
//		readiness       off
//		readiness       [<path>|:<port><path>|<url with {host}>] {
//			interval <duration>
//			timeout  <duration>
//			fails    <n>
//			passes   <n>
//		}
//		canary          off
//		canary          <interval> {
//			prompt     <text>
//			expect     <text>
//			model      <name>
//			max_tokens <n>
//			timeout    <duration>
//			fails      <n>
//		}
//		initial         usable|must_pass
//		warm_up         <duration>|off
//		all_down        serve|refuse
//		slo             ttft <duration> tpot <duration>
//
//		# options of llm_admission
//		paths        + <patterns...> | all
//		max_body     <size>
//		body_timeout <duration>
//		queue        [<calls>|off] {
//			max_wait   <duration>
//			max_bytes  <size>
//			max_tokens <n>
//		}
//		class        <name> {
//			header     <field> <value>
//			expression <cel>
//			share      <percent>
//			max_wait   <duration>
//			deadline   <duration>
//			saturation <ratio>|off
//		}
//		deadline_header <field>
//		tenant       <placeholder>
//		tenant_limit concurrent|tokens_per_minute|weight <n> [<tenant>]
//		client_limit concurrent <n>
//		model        <alias> <name>
//		allow_fields <names...>
//		usage        observe|inject
//		heartbeat    <interval>|off
//		errors       write|pass
//
//		# options of transport llm
//		first_token   off | <min> <max>
//		failover      no_token|unsent|off
//		stall_timeout <duration>
//		error_event   on|off
//		headers       on|off
//		transport {
//			<any option of transport http>
//		}
//
//		retries       <n>
//		write_timeout <duration>
//		<any other subdirective of reverse_proxy>
//	}
func parseProxy(h httpcaddyfile.Helper) ([]httpcaddyfile.ConfigValue, error) {
	if !h.Next() {
		return nil, h.ArgErr()
	}
	matcherSet, err := h.ExtractMatcherSet()
	if err != nil {
		return nil, err
	}
	h.Next() // the directive's name again
	p := &proxy{
		policy:    new(selection.Policy),
		admission: new(admission.Handler),
		transport: transport.Transport{}.CaddyModule().New().(*transport.Transport),
		retries:   defaultRetries,
		given:     make(map[string]int),
		unknown:   make(map[string]caddyfile.Token),
	}
	segment := h.NextSegment()
	if err := p.read(segment); err != nil {
		return nil, err
	}
	rp, err := p.reverseProxy(segment)
	if err != nil {
		return nil, err
	}
	if err := rp.FinalizeUnmarshalCaddyfile(h); err != nil {
		return nil, err
	}
	route := caddyhttp.Route{HandlersRaw: []json.RawMessage{
		caddyconfig.JSONModuleObject(p.admission, "handler", "llm_admission", nil),
		caddyconfig.JSONModuleObject(rp, "handler", "reverse_proxy", nil),
	}}
	if p.writeTimeout > 0 {
		// In front, so that what admission writes by itself falls under it too.
		t := &timeouts.Timeouts{WriteTimeout: p.writeTimeout}
		route.HandlersRaw = slices.Insert(route.HandlersRaw, 0, caddyconfig.JSONModuleObject(t, "handler", "timeouts", nil))
	}
	if matcherSet != nil {
		route.MatcherSetsRaw = []caddy.ModuleMap{matcherSet}
	}
	return []httpcaddyfile.ConfigValue{{Class: "route", Value: route}}, nil
}

// read goes through the directive's tokens and keeps what is not ours for
// reverse_proxy.
func (p *proxy) read(segment caddyfile.Segment) error {
	d := caddyfile.NewDispenser(segment)
	d.Next() // the directive's name
	if err := p.readUpstreams(d); err != nil {
		return err
	}
	for d.NextBlock(0) {
		if err := p.readLine(d); err != nil {
			return err
		}
	}
	return nil
}

// readUpstreams checks the addresses that follow on the line.
func (p *proxy) readUpstreams(d *caddyfile.Dispenser) error {
	for d.NextArg() {
		if err := checkUpstream(d); err != nil {
			return err
		}
		if len(p.upstreams) > 0 {
			if err := checkSameScheme(d, p.upstreams[0], d.Val()); err != nil {
				return err
			}
		}
		p.upstreams = append(p.upstreams, d.Val())
	}
	return nil
}

// readLine reads one line of the block, with the block that may follow it.
func (p *proxy) readLine(d *caddyfile.Dispenser) error {
	name := d.Token()
	if reason := refusal(name.Text); reason != "" {
		return d.Errf("option '%s' is refused in llm_proxy: %s", name.Text, reason)
	}
	switch name.Text {
	case "transport":
		return p.readTransport(d)
	case "retries":
		return p.readRetries(d)
	case "write_timeout":
		return p.readWriteTimeout(d)
	case "to":
		peek := *d
		if err := p.readUpstreams(&peek); err != nil {
			return err
		}
	case "header_up":
		p.noteHeaderUp(d)
	}
	known, err := p.option(d)
	if err != nil || known {
		return err
	}
	p.unknown[name.Text] = name
	p.rest = append(p.rest, d.NextSegment()...)
	return nil
}

// option offers the line to the module whose option it is.
func (p *proxy) option(d *caddyfile.Dispenser) (known bool, err error) {
	name, line := d.Val(), *d
	if !slices.Contains(optionNames(), name) {
		return false, nil
	}
	if err := p.once(d); err != nil {
		return false, err
	}
	switch name {
	case "pool": // the handler and the policy must mean the same pool
		peek := line
		if _, err := p.policy.Option(&peek); err != nil {
			return false, err
		}
	case "upstream_auth":
		peek := line
		if args := peek.RemainingArgs(); len(args) == 2 {
			p.bearer = args[1]
		}
	}
	// The handler comes first: max_body is its option before it is the
	// policy's, which reads a body only where there is no handler.
	for _, option := range []func(*caddyfile.Dispenser) (bool, error){
		p.admission.Option, p.policy.Option, p.transport.Option,
	} {
		if known, err = option(d); err != nil {
			return false, named(name, err)
		}
		if !known {
			continue
		}
		if d.NextArg() {
			return false, d.Errf("unexpected argument '%s' after option '%s'", d.Val(), name)
		}
		return true, nil
	}
	return false, nil
}

// named makes sure that an error says which option it is about.
func named(option string, err error) error {
	if strings.Contains(err.Error(), option) {
		return err
	}
	return fmt.Errorf("option '%s': %w", option, err)
}

// repeatable options, and the handler's, add to what they said before.
var repeatable = []string{"endpoint", "scorer"}

// once refuses an option that is given again: the later line would silently
// win.
func (p *proxy) once(d *caddyfile.Dispenser) error {
	name := d.Val()
	if slices.Contains(repeatable, name) || admission.Repeatable(name) {
		return nil
	}
	if line, again := p.given[name]; again {
		return d.Errf("option '%s' is given twice, first at line %d", name, line)
	}
	p.given[name] = d.Line()
	return nil
}

func (p *proxy) readTransport(d *caddyfile.Dispenser) error {
	if err := p.once(d); err != nil {
		return err
	}
	peek := *d
	if peek.NextArg() {
		return peek.Errf("unexpected argument '%s' after 'transport': in llm_proxy it is always 'llm', which has every option of 'transport http'; write 'transport {'", peek.Val())
	}
	block := d.NextSegment()
	// Our own options may stand in the block too, but not here and there.
	look := caddyfile.NewDispenser(block)
	look.Next()
	for look.NextBlock(0) {
		if slices.Contains(transport.OptionNames(), look.Val()) {
			if err := p.once(look); err != nil {
				return err
			}
		}
		look.NextSegment()
	}
	return p.transport.UnmarshalCaddyfile(caddyfile.NewDispenser(block))
}

// authorizationUp stands in given for a header_up line about Authorization.
const authorizationUp = "header_up Authorization"

// noteHeaderUp remembers a line that sets or removes the header which
// upstream_auth sets, whichever of the two comes first.
func (p *proxy) noteHeaderUp(d *caddyfile.Dispenser) {
	peek := *d
	if peek.NextArg() && strings.EqualFold(strings.TrimLeft(peek.Val(), "+-?>"), "Authorization") {
		p.given[authorizationUp] = d.Line()
	}
}

// unknownOption says where the unknown option stands and what there is.
func unknownOption(at caddyfile.Token) error {
	d := caddyfile.NewDispenser([]caddyfile.Token{at})
	d.Next()
	hint := selection.EndpointHint(at.Text)
	if at.Text == "{" {
		hint = "what stands before it takes no block (scorers stand on lines of their own: scorer <name> [<weight>]); "
	}
	return d.Errf("unknown option '%s' in llm_proxy; %shave %s, and what reverse_proxy has", at.Text, hint, strings.Join(optionNames(), ", "))
}

// optionNames lists the shorthand's own options.
func optionNames() []string {
	names := slices.Concat(selection.OptionNames(), admission.OptionNames(), transport.OptionNames(), []string{"retries", "transport", "write_timeout"})
	slices.Sort(names)
	return slices.Compact(names)
}

// errAt is an error at the directive itself.
func errAt(segment caddyfile.Segment, format string, args ...any) error {
	d := caddyfile.NewDispenser(segment)
	d.Next()
	return d.WrapErr(fmt.Errorf(format, args...))
}
