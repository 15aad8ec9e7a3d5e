package admission

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

func TestTenantOfARequest(t *testing.T) {
	long := strings.Repeat("k", 4000)
	for _, test := range []struct {
		name, text, header, want string
	}{
		{"no tenants", "", "alice", ""},
		{"a placeholder", "{http.request.header.X-User}", "alice", "alice"},
		{"text around it", "team-{http.request.header.X-User}", "alice", "team-alice"},
		{"one that is not known", "{http.auth.user.id}", "alice", ""},
		{"the longest that is kept", "{http.request.header.X-User}", long[:256], long[:256]},
	} {
		h, _ := sharing(t, &Handler{Tenant: test.text})
		if got := h.tenantOf(arriving(false, "X-User", test.header)); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	h, _ := sharing(t, &Handler{Tenant: "{http.request.header.X-User}"})
	a, b := h.tenantOf(arriving(false, "X-User", long)), h.tenantOf(arriving(false, "X-User", long+"k"))
	if a == b || len(a) > maxTenant || len(b) > maxTenant {
		t.Errorf("two long tenants are %q and %q", a, b)
	}
	if again := h.tenantOf(arriving(false, "X-User", long)); again != a {
		t.Errorf("a long tenant is %q, then %q", a, again)
	}
	if got := h.tenantOf(httptest.NewRequest(http.MethodPost, "/", http.NoBody)); got != "" {
		t.Errorf("without Caddy's replacer: %q", got)
	}
}

// A tenant may be a key: logs and metrics show only what the configuration
// shows anyway.
func TestTenantsInLogsAndMetrics(t *testing.T) {
	h, _ := sharing(t, &Handler{Tenant: "{http.request.header.Authorization}", TenantLimits: []TenantLimit{
		{Concurrent: 4}, {Tenant: "alice", Weight: 2},
	}})
	if got := h.shown("alice"); got != "alice" {
		t.Errorf("logs show %q", got)
	}
	secret := "Bearer sk-1234"
	shown := h.shown(secret)
	if !regexp.MustCompile(`^t-[0-9a-f]{8}$`).MatchString(shown) || h.shown(secret) != shown || h.shown(secret+"5") == shown {
		t.Errorf("logs show %q", shown)
	}
	for tenant, want := range map[string]string{"alice": "alice", secret: "other", "": "other"} {
		if got := h.label(tenant); got != want {
			t.Errorf("metrics call %q %q, want %q", tenant, got, want)
		}
	}
	if got := h.shown(""); got != "" {
		t.Errorf("logs show %q for nobody", got)
	}
	none, _ := sharing(t, &Handler{})
	if got := none.label(""); got != "" {
		t.Errorf("metrics call the only tenant %q", got)
	}
}

// A tenant's own limit of a kind replaces everybody's of that kind, and no other.
func TestLimitsOfATenant(t *testing.T) {
	h, _ := sharing(t, &Handler{Tenant: "{http.auth.user.id}", TenantLimits: []TenantLimit{
		{Tenant: "alice", Weight: 2},
		{Tenant: "bob", Concurrent: 32, TokensPerMinute: 5000},
		{Concurrent: 4, TokensPerMinute: 1000},
	}})
	for tenant, want := range map[string]TenantLimit{
		"alice": {Tenant: "alice", Concurrent: 4, TokensPerMinute: 1000, Weight: 2},
		"bob":   {Tenant: "bob", Concurrent: 32, TokensPerMinute: 5000, Weight: 1},
		"carol": {Concurrent: 4, TokensPerMinute: 1000, Weight: 1},
		"":      {Concurrent: 4, TokensPerMinute: 1000, Weight: 1},
	} {
		if got := h.limitsOf(tenant); got != want {
			t.Errorf("%q has %+v, want %+v", tenant, got, want)
		}
	}
	none, _ := sharing(t, &Handler{})
	if got := none.limitsOf("anybody"); got != (TenantLimit{Weight: 1}) {
		t.Errorf("without limits: %+v", got)
	}
}

func TestClientOfARequest(t *testing.T) {
	if got := clientOf(arriving(true)); got != "192.0.2.7" {
		t.Errorf("behind Caddy: %q", got)
	}
	plain := httptest.NewRequest(http.MethodPost, "/", http.NoBody)
	plain.RemoteAddr = "[2001:db8::1]:4711"
	if got := clientOf(plain); got != "2001:db8::1" {
		t.Errorf("by itself: %q", got)
	}
	plain.RemoteAddr = "@"
	if got := clientOf(plain); got != "@" {
		t.Errorf("over a socket: %q", got)
	}
}

// What is not written about the queue is as the documentation says.
func TestQueueDefaults(t *testing.T) {
	for _, test := range []struct {
		name   string
		h      Handler
		calls  int
		bytes  int64
		off    bool
		tokens int
	}{
		{"nothing said", Handler{}, 1024, 256 << 20, false, 0},
		{"an empty block", Handler{Queue: &Queue{}}, 1024, 256 << 20, false, 0},
		{"long bodies", Handler{MaxBody: 1 << 30}, 1024, 1 << 30, false, 0},
		{"all said", Handler{Queue: &Queue{Calls: new(7), MaxBytes: 1 << 30, MaxTokens: 9}}, 7, 1 << 30, false, 9},
		{"nothing waits", Handler{Queue: &Queue{Calls: new(0)}}, 0, 256 << 20, false, 0},
		{"off", Handler{Queue: &Queue{Off: true}}, 0, 256 << 20, true, 0},
	} {
		h := test.h
		if h.calls() != test.calls || h.maxBytes() != test.bytes || h.queueOff() != test.off || h.maxTokens() != test.tokens {
			t.Errorf("%s: %d calls, %d bytes, off %v, %d tokens", test.name, h.calls(), h.maxBytes(), h.queueOff(), h.maxTokens())
		}
		if waits := h.maxWait() > 0; waits != (test.calls > 0) {
			t.Errorf("%s: waits %v", test.name, h.maxWait())
		}
	}
}
