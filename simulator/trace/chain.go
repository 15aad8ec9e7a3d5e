package trace

// chain makes sure that ids stand for a piece and all before it. Some who publish
// traces hash each piece by itself: then an id is found after different others,
// and a prompt may even have one twice. Prompts share as many leading ids either
// way, but who keeps single blocks in a cache would take one for another.
func (t *Trace) chain() {
	if t.chained() {
		return
	}
	for i := range t.Requests {
		var all uint64
		for k, id := range t.Requests[i].Blocks {
			all = mix(all, id)
			t.Requests[i].Blocks[k] = all
		}
	}
}

// chained is whether each id has the same id before it wherever it comes.
func (t *Trace) chained() bool {
	// A place is a hash of the id before and of the depth, without which a first
	// piece would look like one that comes after id 0. Of 30 million ids this is the
	// largest thing in memory.
	places := make(map[uint64]uint64)
	for i := range t.Requests {
		here := mix(0, 0)
		for k, id := range t.Requests[i].Blocks {
			if known, ok := places[id]; !ok {
				places[id] = here
			} else if known != here {
				return false
			}
			here = mix(id, uint64(k)+1)
		}
	}
	return true
}

// mix is a hash of two numbers in their order: the finaliser of splitmix64 over
// each in turn.
func mix(a, b uint64) uint64 { return scramble(scramble(a+0x9e3779b97f4a7c15) ^ b) }

func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
