package loadgen

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// complete fills in the defaults and says what cannot be.
func (s *Scenario) complete() error {
	if s.API == "" {
		s.API = chat
	}
	if s.API != chat && s.API != completions {
		return fmt.Errorf("unknown api %q; have %s or %s", s.API, chat, completions)
	}
	if s.Duration == 0 {
		s.Duration = Duration(30 * time.Second)
		if s.Requests > 0 {
			s.Duration = Duration(10 * time.Minute)
		}
	}
	orDefault(&s.Requests, manyRequests)
	orDefault(&s.Timeout, Duration(2*time.Minute))
	orDefault(&s.TenantHeader, "X-Tenant: {tenant}")
	if err := s.completeLoop(); err != nil {
		return err
	}
	if err := s.completeClasses(); err != nil {
		return err
	}
	for _, c := range s.Classes {
		if err := c.check(s.open()); err != nil {
			return fmt.Errorf("class %q: %w", c.Name, err)
		}
	}
	for _, b := range []bound{
		{"tenants", s.Tenants, 0, maxTenants},
		{"requests", s.Requests, 1, math.MaxInt32},
	} {
		if err := b.check(); err != nil {
			return err
		}
	}
	if s.Duration < 0 || s.Timeout < 0 || s.Ramp < 0 {
		return errors.New("durations must not be negative")
	}
	if s.Ramp > s.Duration {
		return fmt.Errorf("ramp %s is longer than duration %s", time.Duration(s.Ramp), time.Duration(s.Duration))
	}
	if !strings.Contains(s.TenantHeader, "{tenant}") {
		return fmt.Errorf("tenant header %q: have {tenant} where the name is to stand", s.TenantHeader)
	}
	for _, h := range append(slices.Clone(s.Headers), s.TenantHeader) {
		if _, _, err := header(h); err != nil {
			return err
		}
	}
	return nil
}

// open tells an open loop from a closed one.
func (s *Scenario) open() bool { return s.Rate != Rate{} }

func (s *Scenario) completeLoop() error {
	if !s.open() {
		if s.MaxOpen != 0 {
			return errors.New("max open is for an open loop: have a rate, too")
		}
		orDefault(&s.Clients, 20)
		if s.Think < 0 {
			return errors.New("think time must not be negative")
		}
		return (&bound{"clients", s.Clients, 1, maxClients}).check()
	}
	if s.Clients != 0 || s.Think != 0 {
		return errors.New("a rate makes an open loop, clients and think time a closed one: have one of them")
	}
	orDefault(&s.MaxOpen, 2000)
	if s.Rate.From > 0 && s.Ramp == 0 {
		return fmt.Errorf("rate %s: have a ramp, the time from the first to the second", s.Rate)
	}
	return (&bound{"max open", s.MaxOpen, 1, maxClients}).check()
}

// completeClasses gives each class what it does not say itself.
func (s *Scenario) completeClasses() error {
	d := &s.Class
	if d.Name != "" || d.Share != 0 || d.Header != "" {
		return errors.New("name, share and header belong into a class")
	}
	orDefault(&d.Input, Size{Kind: fixed, A: 512})
	orDefault(&d.Output, Size{Kind: fixed, A: 128})
	orDefault(&d.PrefixTokens, 1024)
	orDefault(&d.Turns, 1)
	orDefault(&d.SLOTTFT, Duration(2*time.Second))
	orDefault(&d.SLOTPOT, Duration(100*time.Millisecond))
	if len(s.Classes) == 0 {
		s.Classes = []Class{{Name: "all"}}
	}
	if len(s.Classes) > maxClasses {
		return fmt.Errorf("%d classes: have %d at most", len(s.Classes), maxClasses)
	}
	names := make(map[string]bool)
	for i := range s.Classes {
		c := &s.Classes[i]
		if c.Name == "" {
			return fmt.Errorf("class %d has no name", i+1)
		}
		if names[c.Name] {
			return fmt.Errorf("class %q is there twice", c.Name)
		}
		names[c.Name] = true
		orDefault(&c.Share, 1)
		orDefault(&c.Tenant, d.Tenant)
		orDefault(&c.Input, d.Input)
		orDefault(&c.Output, d.Output)
		orDefault(&c.Prefixes, d.Prefixes)
		orDefault(&c.PrefixTokens, d.PrefixTokens)
		orDefault(&c.Turns, d.Turns)
		orDefault(&c.SLOTTFT, d.SLOTTFT)
		orDefault(&c.SLOTPOT, d.SLOTPOT)
	}
	return nil
}

func (c *Class) check(open bool) error {
	if c.Turns > 1 && open {
		return errors.New("turns are for a closed loop: have clients, not a rate")
	}
	if !(c.Share > 0) || math.IsInf(c.Share, 0) {
		return fmt.Errorf("share %v: have a number above 0", c.Share)
	}
	if c.Header != "" {
		if _, _, err := header(c.Header); err != nil {
			return err
		}
	}
	for _, b := range []bound{
		{"prefixes", c.Prefixes, 0, maxPrefixes},
		{"prefix tokens", c.PrefixTokens, 1, maxTokens},
		{"turns", c.Turns, 1, maxTurns},
	} {
		if err := b.check(); err != nil {
			return err
		}
	}
	if c.SLOTTFT < 0 || c.SLOTPOT < 0 {
		return errors.New("an SLO must not be negative")
	}
	return nil
}

type bound struct {
	name      string
	n         int
	low, high int
}

func (b *bound) check() error {
	if b.n < b.low || b.n > b.high {
		return fmt.Errorf("%s %d: have %d to %d", b.name, b.n, b.low, b.high)
	}
	return nil
}

func orDefault[T comparable](p *T, to T) {
	var zero T
	if *p == zero {
		*p = to
	}
}

// header takes "Name: value" apart.
func header(line string) (name, value string, err error) {
	name, value, ok := strings.Cut(line, ":")
	name, value = strings.TrimSpace(name), strings.TrimSpace(value)
	if !ok || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return "", "", fmt.Errorf("reading header %q: have it as 'Name: value'", line)
	}
	return http.CanonicalHeaderKey(name), value, nil
}
