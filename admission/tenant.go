package admission

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
)

// TenantLimit is what one tenant may use, or each of those that have no limit of
// that kind of their own.
type TenantLimit struct {
	// Whose limit it is. Default: "", each tenant's that has none of its own.
	Tenant string `json:"tenant,omitempty"`

	// How many of its requests may be open at once, waiting ones included.
	// Default: 0, no limit of this kind.
	Concurrent int `json:"concurrent,omitempty"`

	// How many tokens, prompt and answer, it may use a minute. Unused ones are
	// kept for up to a minute. Default: 0, no limit of this kind.
	TokensPerMinute int `json:"tokens_per_minute,omitempty"`

	// How much of what there is to share it gets beside a tenant of weight 1.
	// From 0.001 to 1000. Default: 1.
	Weight float64 `json:"weight,omitempty"`
}

const (
	maxTenant          = 256 // bytes of a name
	maxTokensPerMinute = 1_000_000_000
	minTenantWeight    = 0.001
	maxTenantWeight    = 1000

	// otherTenants is the label of those that the configuration does not name.
	otherTenants = "other"
)

func (h *Handler) checkTenants() error {
	if h.Tenant != "" {
		if err := checkTenantText(h.Tenant); err != nil {
			return err
		}
	}
	if len(h.TenantLimits) > 0 && h.Tenant == "" {
		return fmt.Errorf("tenant_limit needs the option 'tenant', which says whom a request is counted for")
	}
	seen := make(map[string]bool, len(h.TenantLimits))
	for _, l := range h.TenantLimits {
		if err := l.check(); err != nil {
			return fmt.Errorf("tenant_limit: %w", err)
		}
		if seen[l.Tenant] {
			return fmt.Errorf("tenant_limit: there are two for %s", l.whom())
		}
		seen[l.Tenant] = true
	}
	return nil
}

// checkTenantText finds what would be the same for all, or always empty.
func checkTenantText(text string) error {
	_, after, opens := strings.Cut(text, "{")
	name, _, closes := strings.Cut(after, "}")
	if !opens || !closes || name == "" {
		return fmt.Errorf("tenant: %q has no placeholder, such as {http.auth.user.id}: all requests would be one tenant's", text)
	}
	if !printable(text) || strings.ContainsAny(name, " :") || strings.HasSuffix(name, ".") {
		return fmt.Errorf("tenant: %q has a placeholder that is never known", text)
	}
	return nil
}

func (l TenantLimit) check() error {
	switch {
	case len(l.Tenant) > maxTenant || !printable(l.Tenant):
		return fmt.Errorf("%q is not the name of a tenant", l.Tenant)
	case l.Tenant == otherTenants:
		return fmt.Errorf("a tenant cannot be called %q: metrics call those so that have no name in the configuration", l.Tenant)
	case l.Concurrent < 0 || l.Concurrent > maxConcurrent:
		return fmt.Errorf("concurrent: %d is out of range; have 1 to %d", l.Concurrent, maxConcurrent)
	case l.TokensPerMinute < 0 || l.TokensPerMinute > maxTokensPerMinute:
		return fmt.Errorf("tokens_per_minute: %d is out of range; have 1 to %d", l.TokensPerMinute, maxTokensPerMinute)
	case l.Weight != 0 && (math.IsNaN(l.Weight) || l.Weight < minTenantWeight || l.Weight > maxTenantWeight):
		return fmt.Errorf("weight: %v is out of range; have %v to %v", l.Weight, minTenantWeight, maxTenantWeight)
	case l.Weight != 0 && l.Tenant == "":
		return fmt.Errorf("weight: %v for each tenant is the same as 1 for each; name the tenant that is to have another", l.Weight)
	case l.Concurrent == 0 && l.TokensPerMinute == 0 && l.Weight == 0:
		return fmt.Errorf("nothing is said for %s; have concurrent, tokens_per_minute, weight", l.whom())
	}
	return nil
}

func (l TenantLimit) whom() string {
	if l.Tenant == "" {
		return "each tenant"
	}
	return fmt.Sprintf("tenant '%s'", l.Tenant)
}

// provisionTenants works out what holds for each tenant that the configuration
// names: of each kind its own limit, or else everybody's.
func (h *Handler) provisionTenants() {
	h.limits = make(map[string]TenantLimit, len(h.TenantLimits)+1)
	each := TenantLimit{Weight: 1}
	for _, l := range h.TenantLimits {
		if l.Tenant == "" {
			each = l.or(each)
		}
	}
	h.limits[""] = each
	for _, l := range h.TenantLimits {
		if l.Tenant != "" {
			h.limits[l.Tenant] = l.or(each)
		}
	}
}

// or takes from other what l leaves open.
func (l TenantLimit) or(other TenantLimit) TenantLimit {
	if l.Concurrent == 0 {
		l.Concurrent = other.Concurrent
	}
	if l.TokensPerMinute == 0 {
		l.TokensPerMinute = other.TokensPerMinute
	}
	if l.Weight == 0 {
		l.Weight = other.Weight
	}
	return l
}

// limitsOf returns what holds for the tenant.
func (h *Handler) limitsOf(tenant string) TenantLimit {
	if l, ok := h.limits[tenant]; ok {
		return l
	}
	return h.limits[""]
}

// tenantOf returns whom the request is counted for. What is too long to be kept
// for each tenant is replaced by its hash.
func (h *Handler) tenantOf(r *http.Request) string {
	if h.Tenant == "" {
		return ""
	}
	repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	tenant := repl.ReplaceAll(h.Tenant, "")
	if len(tenant) <= maxTenant {
		return tenant
	}
	sum := sha256.Sum256([]byte(tenant))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// tenantSeed makes what logs show of tenants useless outside this process: a
// tenant may be a key.
var tenantSeed = maphash.MakeSeed()

// shown returns what logs call the tenant: its name if the configuration has it,
// and otherwise a word that stays the same while this process runs.
func (h *Handler) shown(tenant string) string {
	if tenant == "" || h.named(tenant) {
		return tenant
	}
	return fmt.Sprintf("t-%08x", uint32(maphash.String(tenantSeed, tenant)))
}

// label returns what metrics call the tenant: its name if the configuration has
// it, "other" for all others, and nothing where there are no tenants.
func (h *Handler) label(tenant string) string {
	switch {
	case h.Tenant == "":
		return ""
	case h.named(tenant):
		return tenant
	}
	return otherTenants
}

func (h *Handler) named(tenant string) bool {
	_, ok := h.limits[tenant]
	return ok && tenant != ""
}
