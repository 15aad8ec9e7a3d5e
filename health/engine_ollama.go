package health

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// Ollama tells no load at all, only which models are in memory. A request for
// another one waits until that is loaded, and may push out one that is there.
var ollama = Dialect{
	Name:      "ollama",
	Path:      "/api/ps",
	Readiness: "/api/version",
	List:      "models",
	Loadless:  true,
	OnDemand: OnDemand{
		Kind:   llmlb.LoadsModels,
		Family: "size",
		Names:  []string{"name", "model"},
		// Some 5 GB, a small model's weights, at the 0.5 GB/s that a disk and
		// the way to the GPU give together. Large ones take minutes; how large
		// one is that is not loaded is not told here.
		Seconds: 10,
	},
	DefaultTag: ":latest",
}
