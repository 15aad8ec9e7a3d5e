package health

import "net/http"

// Triton with the TensorRT-LLM backend, whose metrics are on a port of their
// own, 8002 unless set otherwise. One family holds everything about requests,
// another everything about KV blocks. Older releases tell no queue and no
// fraction. Triton's own nv_inference_pending_request_count is not a queue here:
// requests pass it as soon as the backend takes them in. Its protocol has 4xx for
// what is not ready.
var triton = Dialect{
	Name:      "triton",
	Path:      "/metrics",
	Readiness: "/v2/health/ready",
	NotReady:  http.StatusBadRequest,
	Running: []string{
		"nv_trt_llm_request_metrics{request_type=scheduled}",
		"nv_trt_llm_request_metrics{request_type=active}",
	},
	Waiting:  []string{"nv_trt_llm_request_metrics{request_type=waiting}"},
	KVUsage:  []string{"nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=fraction}"},
	KVUsed:   "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=used}",
	KVBlocks: "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}",
	Capacity: []Capacity{{
		Family: "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=max}",
		Each:   "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=tokens_per}",
	}},
}
