//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/soak/truth"
)

// plan is what one client will do.
type plan struct {
	order
	tenant string
	body   string
	h2     bool

	leaveAfter time.Duration // before the answer; 0: it stays
	leaveAt    int           // after so many pieces; 0: it stays
	pauseAt    int           // bytes after which it stops reading once
	pause      time.Duration
	slow       int // bytes that it reads at a time, with a pause between; 0: as fast as it can
}

// tenants and how many of a hundred requests are theirs. One has a limit.
var tenants = []struct {
	name  string
	share int
}{{"heavy", 40}, {"plain", 30}, {"other", 24}, {"bounded", 6}}

// filler is what prompts are made of; where it is cut differs, so that prompts
// share beginnings sometimes.
var filler = strings.Repeat("Gateways carry what others say, and must not change a word of it; this sentence is one of many. ", 9000)

// drawPlan draws a client from a source of randomness.
func drawPlan(rnd *rand.Rand, id string) plan {
	p := plan{h2: rnd.IntN(3) == 0}
	p.ID, p.Pool, p.Stream = id, poolMain, rnd.IntN(100) < 78
	if rnd.IntN(8) == 0 {
		p.Pool = poolOnce
	}
	n := rnd.IntN(100)
	for _, t := range tenants {
		if n -= t.share; n < 0 {
			p.tenant = t.name
			break
		}
	}
	p.Pieces, p.Pad, p.Gap = 2+rnd.IntN(40), 0, time.Duration(rnd.IntN(12_000))*time.Microsecond
	switch n := rnd.IntN(1000); {
	case n < 25: // long: reloads and drains come and go meanwhile
		p.Pieces, p.Gap = 100+rnd.IntN(150), time.Duration(15+rnd.IntN(15))*time.Millisecond
	case n < 40: // all at once
		p.Pieces, p.Gap = 300, 0
	case n < 55: // more than sockets hold, and a slow reader
		p.Pieces, p.Pad, p.Gap = 200, 8<<10, 0
		p.slow = 64 << 10
	case n < 57 && p.Stream: // a reader that stops for longer than it may
		p.Pieces, p.Pad, p.Gap = 800, 16<<10, 0
		p.pauseAt, p.pause = 64<<10, 7*time.Second
	}
	if p.slow == 0 && p.pause == 0 {
		switch n := rnd.IntN(100); {
		case n < 5:
			p.leaveAfter = time.Duration(1+rnd.IntN(25_000)) * time.Microsecond
		case n < 10 && p.Stream:
			p.leaveAt = 1 + rnd.IntN(p.Pieces)
		}
	}

	size := 200 + rnd.IntN(1800)
	switch n := rnd.IntN(1000); {
	case n < 8:
		size = 800 << 10
	case n < 30:
		size = 100<<10 + rnd.IntN(300<<10)
	case n < 130:
		size = 8<<10 + rnd.IntN(32<<10)
	}
	// Half of the prompts share a beginning with others, the rest are new from the start.
	text := fmt.Sprintf("%s; %s", id, filler[:size])
	if rnd.IntN(2) == 0 {
		text = fmt.Sprintf("Conversation %d. %s %s;", rnd.IntN(20), filler[:size], id)
	}
	more := ""
	if p.Stream && rnd.IntN(2) == 0 {
		more = `"stream_options":{"include_usage":true},`
	}
	p.body = fmt.Sprintf(`{"model":"soak","stream":%t,%s"max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`, p.Stream, more, p.Pieces+8, text)
	p.Sum = truth.Sum([]byte(p.body))
	return p
}
