package admission

import (
	"math"
	"strconv"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

// deadlineHeader reads "deadline_header <field>".
func (h *Handler) deadlineHeader(d *caddyfile.Dispenser) error {
	if err := one(d, &h.DeadlineHeader); err != nil {
		return err
	}
	if h.DeadlineHeader == "" {
		return d.Errf("deadline_header: the name of the header is empty")
	}
	if err := h.checkDeadlineHeader(); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// tenant reads "tenant <placeholder>".
func (h *Handler) tenant(d *caddyfile.Dispenser) error {
	if err := one(d, &h.Tenant); err != nil {
		return err
	}
	if err := checkTenantText(h.Tenant); err != nil {
		return d.WrapErr(err)
	}
	return nil
}

// tenantLimit reads "tenant_limit concurrent|tokens_per_minute|weight <n>
// [<tenant>]". The lines of one tenant make one TenantLimit.
func (h *Handler) tenantLimit(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 || len(args) > 3 {
		return d.ArgErr()
	}
	kind, text := args[0], args[1]
	l := TenantLimit{}
	if len(args) == 3 {
		if l.Tenant = args[2]; l.Tenant == "" {
			return d.Errf("tenant_limit: the tenant's name is empty; leave it out for the limit of each tenant")
		}
	}
	var err error
	switch kind {
	case "concurrent":
		l.Concurrent, err = strconv.Atoi(text)
	case "tokens_per_minute":
		l.TokensPerMinute, err = strconv.Atoi(text)
	case "weight":
		l.Weight, err = strconv.ParseFloat(text, 64)
	default:
		return d.Errf("tenant_limit: unknown limit '%s'; have concurrent, tokens_per_minute, weight", kind)
	}
	if err != nil || l.Concurrent == 0 && l.TokensPerMinute == 0 && (l.Weight == 0 || math.IsNaN(l.Weight)) {
		return d.Errf("tenant_limit: %s: '%s' is not a number over 0", kind, text)
	}
	if err := l.check(); err != nil {
		return d.Errf("tenant_limit: %w", err)
	}
	to := h.limitFor(l.Tenant)
	if l.Concurrent != 0 && to.Concurrent != 0 || l.TokensPerMinute != 0 && to.TokensPerMinute != 0 || l.Weight != 0 && to.Weight != 0 {
		return d.Errf("tenant_limit: %s is given twice for %s", kind, l.whom())
	}
	*to = l.or(*to)
	return nil
}

// limitFor returns the tenant's entry, a new one if it has none.
func (h *Handler) limitFor(tenant string) *TenantLimit {
	for i := range h.TenantLimits {
		if h.TenantLimits[i].Tenant == tenant {
			return &h.TenantLimits[i]
		}
	}
	h.TenantLimits = append(h.TenantLimits, TenantLimit{Tenant: tenant})
	return &h.TenantLimits[len(h.TenantLimits)-1]
}

// clientLimit reads "client_limit concurrent <n>".
func (h *Handler) clientLimit(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.ArgErr()
	}
	if args[0] != "concurrent" {
		return d.Errf("client_limit: unknown limit '%s'; have concurrent", args[0])
	}
	n, err := strconv.Atoi(args[1])
	if err != nil || n < 1 || n > maxConcurrent {
		return d.Errf("client_limit: concurrent: '%s' is not a number of requests from 1 to %d", args[1], maxConcurrent)
	}
	h.ClientLimit = n
	return nil
}

// model reads "model <alias> <name>".
func (h *Handler) model(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) != 2 {
		return d.ArgErr()
	}
	alias, name := args[0], args[1]
	if err := checkAlias(alias, name); err != nil {
		return d.WrapErr(err)
	}
	if before, twice := h.Models[alias]; twice {
		return d.Errf("model: '%s' is given twice, for '%s' and for '%s'", alias, before, name)
	}
	if h.Models == nil {
		h.Models = make(map[string]string)
	}
	h.Models[alias] = name
	return nil
}
