package health

// SGLang, from v0.4 on; it serves metrics only with --enable-metrics. Without,
// there is sglangLoads. Its
// token_usage alone is no sign of load: a page seen in the wild had 2,826
// requests queued at 28 %.
var sglang = Dialect{
	Name:      "sglang",
	Path:      "/metrics",
	Readiness: "/health",
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

// sglangLoads is where SGLang tells its load without any flag: no counters, so
// that a restart is not seen, but the tokens that wait. Ranks that have made no
// pass yet say 0 everywhere, also of their cache.
var sglangLoads = Dialect{
	Name:          "sglang",
	Path:          "/v1/loads",
	List:          "loads",
	Rank:          "dp_rank",
	Running:       []string{"num_running_reqs"},
	Waiting:       []string{"num_waiting_reqs"},
	WaitingTokens: []string{"num_waiting_uncached_tokens"},
	KVUsage:       []string{"token_usage"},
	Capacity:      []Capacity{{Family: "max_total_num_tokens"}},
	Ready:         "max_total_num_tokens",
}
