package baseline

import (
	"slices"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"
)

const (
	// chwblReplicas is how many places each server has on the ring.
	chwblReplicas = 256

	// chwblFactor is how much of the mean load a server may have.
	chwblFactor = 1.25
)

// chwbl is KubeAI's PrefixHash, consistent hashing with bounded loads
// (internal/loadbalancer/balance_chwbl.go; Mirrokni, Thorup and Zadimoghaddam,
// 2016): from the place of the conversation's key on a ring, the first server
// whose open requests are at most 1.25 x (total + 1) / n.
//
// KubeAI's key is the head of the first user's message, the system's prompt left
// out. A trace has no such text: the key is what the prompt's first two pieces
// say.
type chwbl struct{ ring []place }

type place struct {
	hash   uint64
	server int
}

func (c *chwbl) Pick(v *virtual.View) int {
	n := len(v.Servers)
	if len(c.ring) != n*chwblReplicas {
		c.build(n)
	}
	total := 0
	for i := range v.Servers {
		total += v.Servers[i].Open
	}
	limit := chwblFactor * float64(total+1) / float64(n)
	at, _ := slices.BinarySearchFunc(c.ring, scramble(v.Ask.Key), func(p place, h uint64) int {
		switch {
		case p.hash < h:
			return -1
		case p.hash > h:
			return 1
		}
		return 0
	})
	for i := range c.ring {
		p := c.ring[(at+i)%len(c.ring)]
		if float64(v.Servers[p.server].Open) <= limit {
			return p.server
		}
	}
	// The least loaded one is never above the limit.
	panic("baseline: all servers have more than the mean load")
}

func (c *chwbl) build(servers int) {
	c.ring = c.ring[:0]
	for server := range servers {
		for k := range chwblReplicas {
			c.ring = append(c.ring, place{scramble(scramble(uint64(server)) + uint64(k)), server})
		}
	}
	slices.SortFunc(c.ring, func(a, b place) int {
		switch {
		case a.hash < b.hash:
			return -1
		case a.hash > b.hash:
			return 1
		}
		return a.server - b.server
	})
}

// scramble is the finaliser of splitmix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
