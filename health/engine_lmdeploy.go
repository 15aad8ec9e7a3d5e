package health

// LMDeploy; it serves metrics unless they are turned off. Its API server holds
// requests back until the engine has a handle free, and those wait too. Its
// list has all the names that it takes, those of adapters too.
var lmdeploy = Dialect{
	Name:         "lmdeploy",
	Path:         "/metrics",
	Readiness:    "/health",
	Running:      []string{"lmdeploy:num_requests_running"},
	Waiting:      []string{"lmdeploy:num_requests_waiting"},
	Held:         []string{"lmdeploy:num_api_requests_waiting"},
	KVUsage:      []string{"lmdeploy:gpu_cache_usage_perc"},
	Prompt:       []string{"lmdeploy:prompt_tokens_total"},
	Cached:       []string{"lmdeploy:cached_tokens_total"},
	Generated:    []string{"lmdeploy:generation_tokens_total"},
	TTFT:         "lmdeploy:time_to_first_token_seconds",
	ProcessStart: "process_start_time_seconds",
	Strict:       true,
}
