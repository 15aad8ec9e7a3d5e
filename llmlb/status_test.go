package llmlb

import "testing"

// Numbers older than stale_after say nothing of now: they are unknown, and
// never shown as if they were live, nor as zero.
func TestStaleNumbersAreUnknown(t *testing.T) {
	p := NewPool("status")
	s := bound(t, p, Member{Address: "a:1", Name: "a"})
	p.Start(s, t0)
	sig := page(0, 2, 1)
	sig.KVUsage = 0.5
	s.Members[0].Endpoint.ObserveSignals(sig)
	fresh := p.Status(at(1)).Endpoints[0]
	if fresh.Running == nil || *fresh.Running != 2 || *fresh.Waiting != 1 || *fresh.KVUsage != 0.5 || fresh.Blind {
		t.Errorf("fresh: %+v", fresh)
	}
	stale := p.Status(at(6)).Endpoints[0]
	if stale.Running != nil || stale.Waiting != nil || stale.KVUsage != nil || stale.TokensPerSecond != nil || !stale.Blind {
		t.Errorf("stale: %+v", stale)
	}
	if stale.ScrapeAgeMillis == nil || *stale.ScrapeAgeMillis != 6000 {
		t.Errorf("age %v, want 6000 ms", stale.ScrapeAgeMillis)
	}
}
