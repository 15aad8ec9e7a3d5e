package baseline

import (
	"strings"
	"testing"
	"time"
)

func TestNames(t *testing.T) {
	const want = "random round_robin least_requests p2c least_tokens chwbl sglang llmd aibrix dynamo lmetric lpwl min_ttft"
	if got := strings.Join(Names(), " "); got != want {
		t.Errorf("the strategies are %s, want %s", got, want)
	}
	for _, name := range Names() {
		for _, n := range []string{name, Oracle + name} {
			rule, ok := New(n)
			if !ok {
				t.Fatalf("there is no %q", n)
			}
			if a, b := rule(), rule(); a == nil || b == nil {
				t.Errorf("%s makes nothing", n)
			}
			if info := Info(n); info == "" || len(info) > 110 || strings.Contains(info, "\n") {
				t.Errorf("%s is described as %q", n, info)
			}
			if IsOracle(n) != (n != name) {
				t.Errorf("IsOracle(%q) is %v", n, IsOracle(n))
			}
		}
	}
	for _, name := range []string{"", "no", "oracle:", "LLMD"} {
		if _, ok := New(name); ok || Info(name) != "" || Scrape(name) != 0 {
			t.Errorf("there is a strategy %q", name)
		}
	}
	if got := Scrape("llmd"); got != 50*time.Millisecond {
		t.Errorf("llm-d scrapes every %v", got)
	}
}

// Two gateways' strategies share nothing.
func TestEachGatewayHasItsOwn(t *testing.T) {
	rule, _ := New("round_robin")
	a, b, v := rule(), rule(), view(1, server{}, server{})
	a.Pick(v)
	if got := b.Pick(v); got != 0 {
		t.Errorf("another gateway's pick moved this one's turn to %d", got)
	}
}
