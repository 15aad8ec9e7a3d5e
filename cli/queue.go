package cli

import (
	"fmt"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// writeQueue tells what waits, class by class where there are several.
func writeQueue(b *strings.Builder, q *llmlb.QueueStatus) {
	if q.Calls == 0 {
		return
	}
	b.WriteString("queue: ")
	several := 0
	for i := range q.Classes {
		if c := &q.Classes[i]; c.Calls > 0 {
			if several++; several > 1 {
				b.WriteString(", ")
			}
			fmt.Fprintf(b, "%d %s (oldest %s)", c.Calls, printable(c.Name), strings.TrimSpace(latency(&c.OldestMillis)))
		}
	}
	if several == 0 {
		fmt.Fprintf(b, "%d requests", q.Calls)
	}
	fmt.Fprintf(b, "; %d tokens; saturation %.2f\n", q.Tokens, q.Saturation)
}

// tooMuch are the codes of refusals by which the gateway protects the servers, or
// one client from another: those that an operator may want to do something about.
var tooMuch = []string{
	"queue_full", "queue_tokens", "queue_bytes", "queue_timeout", "deadline", "at_capacity", "overloaded",
	"tenant_concurrent", "tenant_tokens", "client_concurrent", "no_endpoint",
}

// writeRefused tells what was refused since the gateway began, for want of servers
// or by a limit.
func writeRefused(b *strings.Builder, refusals map[string]uint64) {
	some := false
	for _, code := range tooMuch {
		n := refusals[code]
		if n == 0 {
			continue
		}
		if some {
			b.WriteString(", ")
		} else {
			b.WriteString("refused so far: ")
		}
		fmt.Fprintf(b, "%d %s", n, code)
		some = true
	}
	if some {
		b.WriteByte('\n')
	}
}
