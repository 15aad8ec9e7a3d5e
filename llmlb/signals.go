package llmlb

import "time"

// Unknown marks a number that an engine did not tell. Missing is never zero:
// an endpoint without numbers is not idle.
const Unknown = -1

// Bounds beyond which a number of an engine's is not believed, whichever way it
// comes. Unix times, which some pages carry under promising names, are far outside.
const (
	MaxRequests = 1e7   // requests running or queued
	MaxTokens   = 1e15  // tokens counted, or of KV cache
	ShareSlack  = 0.001 // how far over 1 a share may come out by rounding
)

// Signals is what one scrape of an endpoint said. Numbers the engine does not
// export are Unknown. Counters are as exported, since the process started.
type Signals struct {
	// At is when the scrape ended.
	At time.Time

	// Engine is the dialect that read the page: "vllm", "sglang", "llamacpp" …
	Engine string

	Running float64 // sequences in the batch
	Waiting float64 // requests in the engine's queue

	// WaitingTokens is the uncached prompt tokens of waiting requests, where
	// the engine tells (SGLang).
	WaitingTokens float64

	// KVUsage is the share of KV-cache memory in use, 0 to 1. Over data-parallel
	// ranks it is the mean; KVUsageMax is the fullest rank.
	KVUsage    float64
	KVUsageMax float64

	// KVCapacity is the KV cache's size in tokens.
	KVCapacity float64

	PromptTokens     float64 // counter: prompt tokens processed
	CachedTokens     float64 // counter: prompt tokens found in the prefix cache
	GenerationTokens float64 // counter: tokens generated

	// TTFTSum (seconds) and TTFTCount are the engine's own time-to-first-token
	// histogram.
	TTFTSum   float64
	TTFTCount float64

	// ProcessStart is the engine's start as Unix seconds.
	ProcessStart float64

	// Sleeping says that the engine has offloaded its weights (vLLM's sleep
	// mode) and cannot serve.
	Sleeping bool

	// Models are the model names seen as labels on the page.
	Models []string

	// ChecksModels says that the engine answers 404 to every name that its own
	// list of models lacks, so that we may do so in its place.
	ChecksModels bool

	// Resident are the adapters, or the models, that the engine holds ready, of
	// the kind that Loads says; ResidentMax is how many adapters it has room
	// for, and LoadSeconds how long it takes to make another one ready.
	Loads       Loadable
	Resident    []string
	ResidentMax int
	LoadSeconds float64
}

// Loadable is what an engine loads when a request names it.
type Loadable uint8

// What is loaded on demand.
const (
	LoadsNothing  Loadable = iota // or nothing is told of it
	LoadsAdapters                 // LoRA adapters beside a base model (vLLM)
	LoadsModels                   // whole models (Ollama)
)

// NoSignals returns Signals in which every number is Unknown.
func NoSignals(at time.Time) Signals {
	return Signals{
		At: at, Running: Unknown, Waiting: Unknown, WaitingTokens: Unknown,
		KVUsage: Unknown, KVUsageMax: Unknown, KVCapacity: Unknown,
		PromptTokens: Unknown, CachedTokens: Unknown, GenerationTokens: Unknown,
		TTFTSum: Unknown, TTFTCount: Unknown, ProcessStart: Unknown,
	}
}

// HasLoad reports whether the page told anything about load. A page without is
// no telemetry, whatever its status code.
func (s *Signals) HasLoad() bool { return s.Running >= 0 || s.Waiting >= 0 }
