package baseline

import (
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

// dynamoPrefillScale is Dynamo's prefill_load_scale.
const dynamoPrefillScale = 1

// dynamo is the KV router of NVIDIA Dynamo (lib/kv-router, the default worker
// selector): the lowest
//
//	prefill_load_scale x (active prefill blocks + prompt blocks - overlap)
//	    + active blocks, with the prompt's
//
// with its defaults: a scale of 1, full credit for what the server has cached, and
// a temperature of 0, which takes the lowest. The router counts its own requests:
// their prefill until the first token, their prompts' blocks as active until they
// end, those that several share once. Blocks are counted in tokens here, which
// changes nothing.
type dynamo struct{ active []active } // by server

// active is the prompts that a server has at the moment.
type active struct {
	uses   map[uint64]int // by piece
	tokens int
}

func (d *dynamo) Pick(v *virtual.View) int {
	if d.active == nil {
		d.active = make([]active, len(v.Servers))
		for i := range d.active {
			d.active[i].uses = make(map[uint64]int)
		}
	}
	return least(v, func(i int, s *virtual.Server) float64 {
		blocks := d.active[i].tokens + d.active[i].extra(v.Ask)
		if v.Oracle && v.Gateways > 1 { // others have active prompts too
			blocks = s.Context + s.Pending + v.Ask.Input
		}
		return float64(dynamoPrefillScale*(s.Pending+uncached(v, s)) + blocks)
	})
}

// Placed, FirstToken and Ended are virtual.Follower.
func (d *dynamo) Placed(_ time.Duration, r *virtual.Ask, server int) { d.active[server].add(r) }

func (*dynamo) FirstToken(time.Duration, *virtual.Ask, int) {}

func (d *dynamo) Ended(_ time.Duration, r *virtual.Ask, server int) { d.active[server].remove(r) }

// extra is how many tokens more there would be with the prompt.
func (a *active) extra(r *virtual.Ask) int {
	n := r.Input
	for _, id := range r.Pieces {
		if a.uses[id] == 0 {
			break // neither are those after it: ids are chained
		}
		n -= r.Block
	}
	return n
}

func (a *active) add(r *virtual.Ask) {
	a.tokens += a.extra(r)
	for _, id := range r.Pieces {
		a.uses[id]++
	}
}

func (a *active) remove(r *virtual.Ask) {
	for _, id := range r.Pieces {
		if a.uses[id]--; a.uses[id] == 0 {
			delete(a.uses, id)
		}
	}
	a.tokens -= a.extra(r)
}
