package engine

// preset is one row of the table: a model on a kind of accelerator, with the
// scheduler limits that vLLM's API server defaults to on that hardware.
type preset struct {
	name     string
	costs    Costs
	kvTokens int
	budget   int
	maxSeqs  int
}

// The coefficients come from published profiles and roofline estimates. Expect
// them to be within a fifth of the truth; the order in which policies finish
// is much less sensitive than that.
//
//	base  floor weights token   pair    context  seq.
var presets = []preset{
	{"8b-h100", Costs{1.2, 5.8, 4.1, 0.0210, 1.9e-6, 5.5e-5, 0.0044}, 448_000, 8192, 1024},
	{"8b-a100", Costs{1.2, 9.0, 5.0, 0.0667, 3.7e-6, 1.45e-4, 0.0044}, 440_000, 2048, 256},
	{"70b-h100x4", Costs{2.7, 15.0, 12.0, 0.0614, 2.4e-6, 3.4e-5, 0.0044}, 485_000, 8192, 1024},
	{"70b-h100x8", Costs{2.7, 9.5, 8.0, 0.0389, 1.2e-6, 1.7e-5, 0.0044}, 1_380_000, 8192, 1024},
	{"32b-h100x2", Costs{2.2, 13.3, 8.0, 0.0509, 3.7e-6, 5.0e-5, 0.0044}, 308_000, 8192, 1024},
}

// DefaultBlockSize is the number of tokens in a KV block, as in vLLM.
const DefaultBlockSize = 16

// Preset returns the configuration of a named model and accelerator, ready for
// New, and whether there is one of that name.
func Preset(name string) (Config, bool) {
	for _, p := range presets {
		if p.name == name {
			return Config{
				Costs:            p.costs,
				KVTokens:         p.kvTokens,
				BlockSize:        DefaultBlockSize,
				MaxSeqs:          p.maxSeqs,
				MaxBatchedTokens: p.budget,
			}, true
		}
	}
	return Config{}, false
}

// PresetNames lists the names that Preset knows, in the table's order.
func PresetNames() []string {
	names := make([]string, len(presets))
	for i, p := range presets {
		names[i] = p.name
	}
	return names
}
