package loadgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

// scenario is the file's, if any, with what the flags say, complete.
func scenario(fl caddycmd.Flags) (*Scenario, error) {
	var s Scenario
	if file := fl.String("scenario"); file != "" {
		var err error
		if s, err = readScenario(file); err != nil {
			return nil, err
		}
	}
	if fl.Changed("rate") && (fl.Changed("clients") || fl.Changed("think")) {
		return nil, errors.New("--rate makes an open loop, --clients and --think a closed one: have one of them")
	}
	if fl.Changed("rate") {
		s.Clients, s.Think = 0, 0
	}
	if fl.Changed("clients") {
		s.Rate, s.MaxOpen = Rate{}, 0
	}
	if err := override(&s, fl); err != nil {
		return nil, err
	}
	if fl.Changed("class") {
		s.Classes = nil
		for _, text := range stringArray(fl, "class") {
			c, err := parseClass(text)
			if err != nil {
				return nil, err
			}
			s.Classes = append(s.Classes, c)
		}
	}
	if s.Seed == 0 {
		s.Seed = 1 + rand.Uint64N(999_999) // short enough to type
	}
	return &s, s.complete()
}

// override sets what flags were given for.
func override(s *Scenario, fl caddycmd.Flags) error {
	for name, to := range map[string]*string{"model": &s.Model, "tenant-header": &s.TenantHeader} {
		if fl.Changed(name) {
			*to = fl.String(name)
		}
	}
	for name, to := range map[string]*int{
		"requests": &s.Requests, "max-open": &s.MaxOpen, "clients": &s.Clients, "prefixes": &s.Prefixes,
		"prefix-tokens": &s.PrefixTokens, "turns": &s.Turns, "tenants": &s.Tenants,
	} {
		if fl.Changed(name) {
			*to = fl.Int(name)
			if *to < 1 {
				return fmt.Errorf("--%s %d: have 1 at least", name, *to)
			}
		}
	}
	for name, to := range map[string]*Duration{
		"duration": &s.Duration, "ramp": &s.Ramp, "think": &s.Think, "timeout": &s.Timeout,
		"slo-ttft": &s.SLOTTFT, "slo-tpot": &s.SLOTPOT,
	} {
		if fl.Changed(name) {
			*to = Duration(fl.Duration(name))
			if *to < 0 || *to == 0 && name != "ramp" && name != "think" {
				return fmt.Errorf("--%s %s: have a time above 0", name, fl.Duration(name))
			}
		}
	}
	for name, to := range map[string]*Size{"input": &s.Input, "output": &s.Output} {
		if fl.Changed(name) {
			var err error
			if *to, err = ParseSize(fl.String(name)); err != nil {
				return fmt.Errorf("--%s: %w", name, err)
			}
		}
	}
	if fl.Changed("rate") {
		var err error
		if s.Rate, err = ParseRate(fl.String("rate")); err != nil {
			return fmt.Errorf("--rate: %w", err)
		}
	}
	if fl.Bool("completions") {
		s.API = completions
	}
	if fl.Bool("ignore-eos") {
		s.IgnoreEOS = true
	}
	if fl.Changed("seed") {
		seed, err := fl.GetUint64("seed")
		if err != nil {
			return err
		}
		s.Seed = seed
	}
	s.Headers = append(s.Headers, stringArray(fl, "header")...)
	return nil
}

func stringArray(fl caddycmd.Flags, name string) []string {
	values, err := fl.GetStringArray(name)
	if err != nil {
		return nil
	}
	return values
}

// classKeys are what --class takes: the fields of Class.
var classKeys = []string{"share", "header", "tenant", "input", "output", "prefixes", "prefix_tokens", "turns", "slo_ttft", "slo_tpot"}

// parseClass reads "name,share=0.4,input=200": a class's JSON in another dress.
func parseClass(text string) (c Class, err error) {
	name, rest, _ := strings.Cut(text, ",")
	fields := map[string]any{"name": strings.TrimSpace(name)}
	for rest != "" {
		var one string
		one, rest, _ = strings.Cut(rest, ",")
		key, value, ok := strings.Cut(one, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !ok || !slices.Contains(classKeys, key) {
			return c, fmt.Errorf("--class %q: unknown %q; have a name, then %s, each with = and a value, commas between",
				text, one, strings.Join(classKeys, ", "))
		}
		if _, err := strconv.ParseFloat(value, 64); err == nil && key != "tenant" {
			fields[key] = json.Number(value)
		} else {
			fields[key] = value
		}
	}
	raw, err := json.Marshal(fields)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil {
		return Class{}, fmt.Errorf("--class %q: %w", text, err)
	}
	return c, nil
}
