package selection

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// mix spreads all bits of x over all bits of the result: the finalizer of
// SplitMix64.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// rendezvous is how much a key wants to be at an endpoint. The endpoint that a
// key wants most is its home; when an endpoint leaves, only its own keys move.
// Nothing here is keyed per process: gateways agree on homes without talking,
// and what an outsider could aim at is keyed in Features.Key already.
func rendezvous(key uint64, e *llmlb.Endpoint) uint64 {
	return mix(mix(key) ^ e.AddressHash())
}
