package health

import "github.com/caddy-llmlb/caddy-llmlb/llmlb"

// vLLM, from V0 to the names of 2026. Waiting is not the sum of its reasons
// (num_requests_waiting_by_reason), which break it down. The hit counters of
// the prefix cache count a waiting request again at every scheduler step, so
// cached tokens are read from prompt_tokens_cached_total alone. Adapters are told
// as those in use; the others that fit in max_lora are ready too, which the
// endpoint remembers.
//
// It checks names (VLLM_SKIP_MODEL_NAME_VALIDATION, which nothing tells of, turns
// that off), but where adapters are on, a plugin may find one on a disk or a hub
// when it is first asked for.
var vLLM = Dialect{
	Name:      "vllm",
	Path:      "/metrics",
	Readiness: "/health",
	Running:   []string{"vllm:num_requests_running"},
	Waiting:   []string{"vllm:num_requests_waiting"},
	KVUsage:   []string{"vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"},
	Prompt:    []string{"vllm:prompt_tokens_total"},
	Cached:    []string{"vllm:prompt_tokens_cached_total"},
	Generated: []string{"vllm:generation_tokens_total"},
	TTFT:      "vllm:time_to_first_token_seconds",
	Capacity: []Capacity{
		{Family: "vllm:cache_config_info", Labels: []string{"kv_cache_size_tokens"}},
		{Family: "vllm:cache_config_info", Labels: []string{"block_size", "num_gpu_blocks"}},
	},
	Sleep: "vllm:engine_sleep_state", SleepLabel: "sleep_state", AwakeState: "awake",
	ProcessStart: "process_start_time_seconds",
	Strict:       true,
	OnDemand: OnDemand{
		Kind:   llmlb.LoadsAdapters,
		Family: "vllm:lora_requests_info",
		Names:  []string{"running_lora_adapters", "waiting_lora_adapters"},
		Room:   "max_lora",
		// Tens to hundreds of MB, from disk or the page cache to the GPU. The
		// first use of an adapter pays for it, and the batch waits meanwhile.
		Seconds: 0.5,
	},
}
