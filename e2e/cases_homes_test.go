package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// onlyFree makes the server the only one with room in its KV cache, so that what
// is new goes there.
func onlyFree(free *backend, list ...*backend) {
	for _, b := range list {
		b.set(load{kv: 0.97})
	}
	free.set(load{})
	for _, b := range list {
		b.seen()
	}
}

// allFree gives all of them room again.
func allFree(list ...*backend) {
	for _, b := range list {
		b.set(load{})
	}
	for _, b := range list {
		b.seen()
	}
}

// nameOf is the name that named gives to the server at the place.
func nameOf(i int) string { return string(rune('a' + i)) }

// idle waits until nothing is in flight anywhere in the gateway's pools.
func (g *gateway) idle(t testing.TB) {
	t.Helper()
	eventually(t, "every reservation to go back", func() bool {
		for _, p := range g.pools() {
			for _, e := range p.Endpoints {
				if e.Calls+e.PrefillTokens+e.OutputTokens != 0 {
					return false
				}
			}
		}
		return true
	})
}

// conversation is one that grows with every turn.
type conversation struct {
	name     string
	messages []string
	servers  []string // that answered, turn by turn
}

// turn sends the next question with all that was said before.
func (c *conversation) turn(g *gateway) reply {
	g.t.Helper()
	question, err := json.Marshal(prose(fmt.Sprintf("%s turn %d", c.name, len(c.servers)), 2500))
	if err != nil {
		g.t.Fatal(err)
	}
	c.messages = append(c.messages, `{"role":"user","content":`+string(question)+`}`)
	r := g.post(`{"model":"m","messages":[` + strings.Join(c.messages, ",") + `]}`)
	c.messages = append(c.messages, `{"role":"assistant","content":"hello"}`)
	c.servers = append(c.servers, r.endpoint())
	return r
}

// moves counts how often the conversation changed its server.
func (c *conversation) moves() (n int) {
	for i := range c.servers[1:] {
		if c.servers[i] != c.servers[i+1] {
			n++
		}
	}
	return n
}
