package health

// SGLang, from v0.4 on; it serves metrics only with --enable-metrics. Its
// token_usage alone is no sign of load: a page seen in the wild had 2,826
// requests queued at 28 %.
var sglang = Dialect{
	Name:      "sglang",
	Path:      "/metrics",
	Running:   []string{"sglang:num_running_reqs"},
	Waiting:   []string{"sglang:num_queue_reqs"},
	KVUsage:   []string{"sglang:token_usage"},
	Prompt:    []string{"sglang:prompt_tokens_total"},
	Cached:    []string{"sglang:cached_tokens_total"},
	Generated: []string{"sglang:generation_tokens_total"},
	TTFT:      "sglang:time_to_first_token_seconds",
	Capacity: []Capacity{
		{Family: "sglang:max_total_num_tokens"},
		{Family: "sglang:cache_config_info", Labels: []string{"page_size", "num_pages"}},
	},
	ProcessStart: "process_start_time_seconds",
}
