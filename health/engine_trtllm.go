package health

// TensorRT-LLM's own server, trtllm-serve. Its /metrics is not this page but
// JSON, and reading that takes it from whoever collects it.
var trtllm = Dialect{
	Name:      "trtllm",
	Path:      "/prometheus/metrics",
	Readiness: "/health",
	Running:   []string{"trtllm_num_requests_running"},
	Waiting:   []string{"trtllm_num_requests_waiting"},
	KVUsage:   []string{"trtllm_kv_cache_utilization"},
	Prompt:    []string{"trtllm_prompt_tokens_total"},
	Generated: []string{"trtllm_generation_tokens_total"},
	TTFT:      "trtllm_time_to_first_token_seconds",
	Capacity: []Capacity{
		{Family: "trtllm_kv_cache_max_blocks", Each: "trtllm_kv_cache_tokens_per_block"},
	},
	ProcessStart: "process_start_time_seconds",
}
