package health

// llama.cpp's server; it serves metrics only with --metrics and answers 501
// without. Builds since mid-2025 tell no KV usage. Its prompt_tokens_total
// leaves out what the cache held.
var llamacpp = Dialect{
	Name:        "llamacpp",
	Path:        "/metrics",
	Readiness:   "/health",
	Running:     []string{"llamacpp:requests_processing"},
	Waiting:     []string{"llamacpp:requests_deferred"},
	KVUsage:     []string{"llamacpp:kv_cache_usage_ratio"},
	Prompt:      []string{"llamacpp:prompt_tokens_total"},
	Cached:      []string{"llamacpp:prompt_tokens_cached_total"},
	Generated:   []string{"llamacpp:tokens_predicted_total"},
	StartHeader: "Process-Start-Time-Unix",
}
