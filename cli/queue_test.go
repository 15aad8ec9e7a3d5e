package cli

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// What waits is told class by class, and what was refused for want of servers;
// a pool in which nothing waits says nothing of it.
func TestWhatWaitsIsTold(t *testing.T) {
	for _, test := range []struct {
		name string
		pool llmlb.PoolStatus
		want string
	}{
		{"nothing", llmlb.PoolStatus{Refusals: map[string]uint64{"path_not_served": 7}}, ""},
		{
			"two classes",
			llmlb.PoolStatus{Queue: llmlb.QueueStatus{Calls: 5, Tokens: 9000, Saturation: 1.25, Classes: []llmlb.QueueClass{
				{Name: "interactive", Calls: 2, OldestMillis: 120}, {Name: "idle"}, {Name: "background", Calls: 3, OldestMillis: 61_000},
			}}},
			"queue: 2 interactive (oldest 120ms), 3 background (oldest 61.0s); 9000 tokens; saturation 1.25\n",
		},
		{
			"refused",
			llmlb.PoolStatus{Refusals: map[string]uint64{"queue_full": 2, "body_too_large": 1, "tenant_tokens": 5}},
			"refused so far: 2 queue_full, 5 tenant_tokens\n",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var b strings.Builder
			writeQueue(&b, &test.pool.Queue)
			writeRefused(&b, test.pool.Refusals)
			if b.String() != test.want {
				t.Errorf("got %q, want %q", b.String(), test.want)
			}
		})
	}
}
