package engine

import (
	"math/rand/v2"
	"testing"
)

// Whatever is put in and taken out, the table knows what a map would know.
func TestTableAgainstMap(t *testing.T) {
	for _, tc := range []struct {
		name string
		id   func(*rand.Rand) uint64
	}{
		{"small ids", func(r *rand.Rand) uint64 { return r.Uint64N(300) }},
		{"ids that differ in their upper bits", func(r *rand.Rand) uint64 { return r.Uint64N(300) << 55 }},
		{"random ids", func(r *rand.Rand) uint64 { return rand.New(rand.NewPCG(r.Uint64N(300), 0)).Uint64() }},
		{"ids with one home", func(r *rand.Rand) uint64 { return r.Uint64N(300) * inverse }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(19, 23))
			ops := make([]byte, 0, 20_000)
			ids := make([]uint64, 0, 20_000)
			for range 20_000 {
				ops = append(ops, byte(rng.Uint32()))
				ids = append(ids, tc.id(rng))
			}
			compare(t, newTable(100), ops, ids)
			compare(t, table{}, ops, ids)
		})
	}
}

// inverse undoes the table's multiplication modulo 2^64, so that small
// multiples of it all start their search in the first slot.
const inverse = 0xf1de83e19937733d

// FuzzTable reads operations and ids from the input.
func FuzzTable(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 250, 251, 0, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		ids := make([]uint64, len(data))
		for i, b := range data {
			// Few different ids, half of which have the same home.
			ids[i] = uint64(b>>3) * [2]uint64{1, inverse}[b&1]
		}
		compare(t, table{}, data, ids)
	})
}

// compare applies operations to a table and to a map. More add than remove.
func compare(t *testing.T, tab table, ops []byte, ids []uint64) {
	t.Helper()
	want := map[uint64]int32{}
	for i, op := range ops {
		id := ids[i]
		_, known := want[id]
		if op%8 < 3 {
			if known {
				tab.remove(want[id])
			}
			delete(want, id)
		} else {
			if added := tab.add(id, int32(i)); added == known {
				t.Fatalf("operation %d: id %d added: %v, known before: %v", i, id, added, known)
			}
			if !known {
				want[id] = int32(i)
			}
		}
		if got, ok := tab.get(id); ok != (op%8 >= 3) || ok && got != want[id] {
			t.Fatalf("operation %d: id %d has %d, %v; want %d", i, id, got, ok, want[id])
		}
		if tab.length != len(want) {
			t.Fatalf("operation %d: length %d, want %d", i, tab.length, len(want))
		}
	}
	for id, n := range want {
		if got, ok := tab.get(id); !ok || got != n {
			t.Fatalf("in the end id %d has %d, %v; want %d", id, got, ok, n)
		}
	}
}
