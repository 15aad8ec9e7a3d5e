package health

// Text Generation Inference. It tells neither KV usage nor time to first token,
// and its token counts are the sums of histograms: prompts when they were
// accepted, answers when they had ended.
var tgi = Dialect{
	Name:      "tgi",
	Path:      "/metrics",
	Readiness: "/health",
	Running:   []string{"tgi_batch_current_size"},
	Waiting:   []string{"tgi_queue_size"},
	Prompt:    []string{"tgi_request_input_length_sum"},
	Generated: []string{"tgi_request_generated_tokens_sum"},
}
