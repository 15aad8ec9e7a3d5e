package health

// NVIDIA NIM for LLMs, as far as it has names of its own; a release that passes
// on another engine's is read as that engine.
var nim = Dialect{
	Name:         "nim",
	Path:         "/v1/metrics",
	Readiness:    "/v1/health/ready",
	Plain:        true,
	Running:      []string{"num_requests_running"},
	Waiting:      []string{"num_requests_waiting"},
	KVUsage:      []string{"gpu_cache_usage_perc"},
	Prompt:       []string{"prompt_tokens_total"},
	Generated:    []string{"generation_tokens_total"},
	TTFT:         "time_to_first_token_seconds",
	ProcessStart: "process_start_time_seconds",
}
