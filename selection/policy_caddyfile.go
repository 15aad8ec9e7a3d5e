package selection

import (
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// options are the Caddyfile options of the policy: each reads its arguments
// from a dispenser that stands on its name.
var options = map[string]func(*Policy, *caddyfile.Dispenser) error{
	"pool":            (*Policy).readPool,
	"engine":          (*Policy).readEngine,
	"metrics":         (*Policy).readMetrics,
	"scrape_interval": func(p *Policy, d *caddyfile.Dispenser) error { return readDuration(d, &p.ScrapeInterval) },
	"stale_after":     func(p *Policy, d *caddyfile.Dispenser) error { return readDuration(d, &p.StaleAfter) },
	"upstream_auth":   (*Policy).readUpstreamAuth,
	"strategy":        (*Policy).readStrategy,
	"scorer":          (*Policy).readScorer,
	"affinity":        (*Policy).readAffinity,
	"spill_waiting":   (*Policy).readSpillWaiting,
	"spill_ttft":      (*Policy).readSpillTTFT,
	"kv_limit":        (*Policy).readKVLimit,
	"affinity_key":    func(p *Policy, d *caddyfile.Dispenser) error { return readWord(d, &p.AffinityKey, nil) },
	"index_bytes":     func(p *Policy, d *caddyfile.Dispenser) error { return readSize(d, &p.IndexBytes) },
	"max_body":        func(p *Policy, d *caddyfile.Dispenser) error { return readSize(d, &p.MaxBody) },
	"local_zone":      func(p *Policy, d *caddyfile.Dispenser) error { return readWord(d, &p.LocalZone, nil) },
	"orca":            (*Policy).readORCA,
	"circuit":         (*Policy).readCircuit,
	"endpoint":        (*Policy).readEndpoint,
	"readiness":       (*Policy).readReadiness,
	"canary":          (*Policy).readCanary,
	"initial":         func(p *Policy, d *caddyfile.Dispenser) error { return readChoice(d, &p.Initial, initials) },
	"warm_up":         (*Policy).readWarmUp,
	"all_down":        func(p *Policy, d *caddyfile.Dispenser) error { return readChoice(d, &p.AllDown, allDowns) },
	"slo":             (*Policy).readSLO,
}

// OptionNames lists the Caddyfile options of the policy, for messages.
func OptionNames() []string {
	return []string{
		"pool", "engine", "metrics", "scrape_interval", "stale_after", "upstream_auth", "strategy", "scorer", "affinity",
		"spill_waiting", "spill_ttft", "kv_limit", "affinity_key", "index_bytes", "local_zone", "orca", "circuit", "endpoint",
		"readiness", "canary", "initial", "warm_up", "all_down", "slo", "max_body",
	}
}

// repeatable options add to what they said before.
var repeatable = []string{"endpoint", "scorer"}

// UnmarshalCaddyfile sets up the policy from Caddyfile tokens:
//
//	lb_policy llm {
//		pool            <name>
//		engine          auto|vllm|sglang|llamacpp|trtllm|triton|tgi|lmdeploy|nim|ollama|none
//		metrics         </path | :port/path | url with {host}>
//		scrape_interval <duration>
//		stale_after     <duration>
//		upstream_auth   bearer <token>
//		strategy        work|prefix_spill|weighted|<another policy of Caddy's> [<its arguments and block>]
//		scorer          <name> [<weight>] [<its arguments and block>]
//		affinity        <ratio> [<min_tokens>]
//		spill_waiting   <n>|off
//		spill_ttft      <duration>|off
//		kv_limit        <percent>
//		affinity_key    <key>
//		index_bytes     <size>
//		local_zone      <zone>
//		orca            on|off
//		circuit         off
//		circuit {
//			failures <n>|off
//			rate     <percent>|off
//			open_for <duration>
//		}
//		endpoint <upstream> {
//			name           <name>
//			weight         <factor>
//			zone           <zone>
//			max_concurrent <n>
//			max_tokens     <n>
//			drain
//		}
//		readiness       off
//		readiness       [</path | :port/path | url with {host}>] {
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
//		max_body        <size>
//	}
func (p *Policy) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the policy's name
	if d.NextArg() {
		return d.ArgErr()
	}
	lines := make(map[string]int)
	for d.NextBlock(0) {
		name := d.Val()
		if line, given := lines[name]; given && !slices.Contains(repeatable, name) {
			return d.Errf("option '%s' is given twice, first at line %d", name, line)
		}
		lines[name] = d.Line()
		known, err := p.Option(d)
		if err != nil {
			return err
		}
		if !known {
			return d.Errf("unknown option '%s'; %shave %s", name, EndpointHint(name), strings.Join(OptionNames(), ", "))
		}
		if d.NextArg() {
			return d.Errf("unexpected argument '%s' after option '%s'", d.Val(), name)
		}
	}
	return nil
}

// Option reads the option that the dispenser stands on, if the policy has one
// of that name; otherwise it consumes nothing.
func (p *Policy) Option(d *caddyfile.Dispenser) (known bool, err error) {
	read, known := options[d.Val()]
	if !known {
		return false, nil
	}
	return true, read(p, d)
}

func (p *Policy) readPool(d *caddyfile.Dispenser) error {
	return readWord(d, &p.Pool, func(s string) error { return checkName("pool", s) })
}

// theirHost takes back what Caddy makes of {host} wherever it stands in a
// Caddyfile: its own short form of a placeholder for the request's host.
var theirHost = strings.NewReplacer("{http.request.host}", "{host}")

func (p *Policy) readMetrics(d *caddyfile.Dispenser) error {
	err := readWord(d, &p.Metrics, func(s string) error { return checkAddress("metrics", theirHost.Replace(s)) })
	p.Metrics = theirHost.Replace(p.Metrics)
	return err
}

func (p *Policy) readEngine(d *caddyfile.Dispenser) error { return readChoice(d, &p.Engine, engines) }

func (p *Policy) readUpstreamAuth(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 || args[0] != "bearer" || args[1] == "" {
		// Not ArgErr, which would repeat the token.
		return d.Errf("option 'upstream_auth' takes 'bearer' and a token such as {env.LLM_API_KEY}")
	}
	if strings.ContainsFunc(args[1], func(c rune) bool { return c <= ' ' || c > '~' }) {
		return d.Errf("the token of option 'upstream_auth' must be printable ASCII without spaces")
	}
	p.UpstreamAuth = "bearer " + args[1]
	return nil
}

func (p *Policy) readAffinity(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 2)
	if err != nil {
		return err
	}
	if p.Affinity, err = strconv.ParseFloat(args[0], 64); err != nil || !(p.Affinity > 0 && p.Affinity <= 1) {
		return d.Errf("bad affinity '%s'; have a share over 0 and up to 1", args[0])
	}
	if len(args) == 2 {
		if p.AffinityMinTokens, err = strconv.Atoi(args[1]); err != nil || p.AffinityMinTokens < 1 || p.AffinityMinTokens > maxTokens {
			return d.Errf("bad number of tokens '%s' in option 'affinity'; have 1 to %d", args[1], maxTokens)
		}
	}
	return nil
}

func (p *Policy) readSpillWaiting(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	n := 0.0
	if args[0] != "off" {
		if n, err = strconv.ParseFloat(args[0], 64); err != nil || !(n >= 0 && n <= maxWaiting) {
			return d.Errf("bad spill_waiting '%s'; have a number of requests, or off", args[0])
		}
	}
	p.SpillWaiting = &n
	return nil
}

func (p *Policy) readSpillTTFT(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	var t caddy.Duration
	if args[0] != "off" {
		n, err := caddy.ParseDuration(args[0])
		if err != nil || n < 0 || n > maxSpillTTFT {
			return d.Errf("bad spill_ttft '%s'; have a duration such as 500ms, or off", args[0])
		}
		t = caddy.Duration(n)
	}
	p.SpillTTFT = &t
	return nil
}

func (p *Policy) readKVLimit(d *caddyfile.Dispenser) error {
	args, err := arguments(d, 1, 1)
	if err != nil {
		return err
	}
	limit, err := readShare(args[0])
	if err != nil {
		return d.Errf("bad kv_limit '%s'; %v", args[0], err)
	}
	p.KVLimit = limit
	return nil
}
