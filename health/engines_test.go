package health

import (
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Pages as these engines write them, for those of which no page is published or
// the published one lacks what newer releases tell.
const (
	trtllmPage = `# HELP trtllm_num_requests_running Requests running
# TYPE trtllm_num_requests_running gauge
trtllm_num_requests_running{engine_type="pytorch",model_name="m"} 12.0
trtllm_num_requests_waiting{engine_type="pytorch",model_name="m"} 4.0
trtllm_num_requests_completed_total{engine_type="pytorch",model_name="m"} 900.0
trtllm_max_num_active_requests{engine_type="pytorch",model_name="m"} 64.0
trtllm_num_scheduled_requests{engine_type="pytorch",model_name="m"} 11.0
trtllm_num_paused_requests{engine_type="pytorch",model_name="m"} 1.0
trtllm_kv_cache_utilization{engine_type="pytorch",model_name="m"} 0.625
trtllm_kv_cache_hit_rate{engine_type="pytorch",model_name="m"} 0.3
trtllm_kv_cache_max_blocks{engine_type="pytorch",model_name="m"} 8000.0
trtllm_kv_cache_used_blocks{engine_type="pytorch",model_name="m"} 5000.0
trtllm_kv_cache_free_blocks{engine_type="pytorch",model_name="m"} 3000.0
trtllm_kv_cache_tokens_per_block{engine_type="pytorch",model_name="m"} 32.0
trtllm_prompt_tokens_total{engine_type="pytorch",model_name="m"} 70000.0
trtllm_generation_tokens_total{engine_type="pytorch",model_name="m"} 30000.0
trtllm_time_to_first_token_seconds_bucket{engine_type="pytorch",le="+Inf",model_name="m"} 900.0
trtllm_time_to_first_token_seconds_count{engine_type="pytorch",model_name="m"} 900.0
trtllm_time_to_first_token_seconds_sum{engine_type="pytorch",model_name="m"} 180.5
trtllm_time_to_first_token_seconds_created{engine_type="pytorch",model_name="m"} 1.79e+09
`
	tritonPage = `# TYPE nv_trt_llm_request_metrics gauge
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="waiting",version="1"} 5
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="context",version="1"} 2
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="scheduled",version="1"} 30
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="max",version="1"} 512
nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 31
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.4875
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="tokens_per",model="tensorrt_llm",version="1"} 64
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="used",model="tensorrt_llm",version="1"} 100
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="free",model="tensorrt_llm",version="1"} 900
nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max",model="tensorrt_llm",version="1"} 1000
nv_inference_pending_request_count{model="ensemble",version="1"} 77
`
	tgiPage = `# TYPE tgi_queue_size gauge
tgi_queue_size 9

# TYPE tgi_batch_current_size gauge
tgi_batch_current_size 17

# TYPE tgi_batch_current_max_tokens gauge
tgi_batch_current_max_tokens 5120

# TYPE tgi_request_input_length histogram
tgi_request_input_length_bucket{le="+Inf"} 40
tgi_request_input_length_sum 1200
tgi_request_input_length_count 40

# TYPE tgi_request_generated_tokens histogram
tgi_request_generated_tokens_bucket{le="+Inf"} 31
tgi_request_generated_tokens_sum 800
tgi_request_generated_tokens_count 31
`
	lmdeployPage = `# HELP lmdeploy:num_requests_running In the batch
# TYPE lmdeploy:num_requests_running gauge
lmdeploy:num_requests_running{engine="0",model_name="m"} 8.0
lmdeploy:num_requests_waiting{engine="0",model_name="m"} 3.0
lmdeploy:num_api_requests_waiting{engine="0",model_name="m"} 40.0
lmdeploy:num_api_requests_routed{engine="0",model_name="m"} 11.0
lmdeploy:num_requests_succeeded{engine="0",model_name="m"} 500.0
lmdeploy:num_requests_failed{engine="0",model_name="m"} 2.0
lmdeploy:gpu_cache_usage_perc{engine="0",model_name="m"} 0.75
lmdeploy:prefix_cache_hit_rate{engine="0",model_name="m"} 0.2
lmdeploy:prompt_tokens_total{engine="0",model_name="m"} 6000.0
lmdeploy:cached_tokens_total{engine="0",model_name="m"} 1200.0
lmdeploy:generation_tokens_total{engine="0",model_name="m"} 4000.0
lmdeploy:iteration_tokens_total_sum{engine="0",model_name="m"} 9999.0
lmdeploy:time_to_first_token_seconds_sum{engine="0",model_name="m"} 55.5
lmdeploy:time_to_first_token_seconds_count{engine="0",model_name="m"} 500.0
process_start_time_seconds 1.79e+09
`
	nimPage = `# HELP num_requests_running Requests running
# TYPE num_requests_running gauge
num_requests_running{model_name="meta/m"} 6.0
num_requests_waiting{model_name="meta/m"} 2.0
num_request_max{model_name="meta/m"} 256.0
gpu_cache_usage_perc{model_name="meta/m"} 0.125
prompt_tokens_total{model_name="meta/m"} 5000.0
generation_tokens_total{model_name="meta/m"} 2500.0
time_to_first_token_seconds_sum{model_name="meta/m"} 12.5
time_to_first_token_seconds_count{model_name="meta/m"} 50.0
request_success_total{model_name="meta/m"} 50.0
process_start_time_seconds 1.79e+09
`
)

// What each engine's page is read as, number by number, and by no other engine.
func TestEnginePages(t *testing.T) {
	for _, c := range []struct {
		page string
		want llmlb.Signals
	}{
		{trtllmPage, llmlb.Signals{
			Engine: "trtllm", Running: 12, Waiting: 4, WaitingTokens: unknown,
			KVUsage: 0.625, KVUsageMax: 0.625, KVCapacity: 256000,
			PromptTokens: 70000, CachedTokens: unknown, GenerationTokens: 30000,
			TTFTSum: 180.5, TTFTCount: 900, ProcessStart: unknown, Models: []string{"m"},
		}},
		{tritonPage, llmlb.Signals{
			Engine: "triton", Running: 30, Waiting: 5, WaitingTokens: unknown,
			KVUsage: 0.4875, KVUsageMax: 0.4875, KVCapacity: 64000,
			PromptTokens: unknown, CachedTokens: unknown, GenerationTokens: unknown,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
		}},
		{tgiPage, llmlb.Signals{
			Engine: "tgi", Running: 17, Waiting: 9, WaitingTokens: unknown,
			KVUsage: unknown, KVUsageMax: unknown, KVCapacity: unknown,
			PromptTokens: 1200, CachedTokens: unknown, GenerationTokens: 800,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
		}},
		{lmdeployPage, llmlb.Signals{
			Engine: "lmdeploy", Running: 8, Waiting: 43, WaitingTokens: unknown,
			KVUsage: 0.75, KVUsageMax: 0.75, KVCapacity: unknown,
			PromptTokens: 6000, CachedTokens: 1200, GenerationTokens: 4000,
			TTFTSum: 55.5, TTFTCount: 500, ProcessStart: 1.79e9, Models: []string{"m"},
		}},
		{nimPage, llmlb.Signals{
			Engine: "nim", Running: 6, Waiting: 2, WaitingTokens: unknown,
			KVUsage: 0.125, KVUsageMax: 0.125, KVCapacity: unknown,
			PromptTokens: 5000, CachedTokens: unknown, GenerationTokens: 2500,
			TTFTSum: 12.5, TTFTCount: 50, ProcessStart: 1.79e9, Models: []string{"meta/m"},
		}},
	} {
		t.Run(c.want.Engine, func(t *testing.T) {
			c.want.At = time.Unix(1, 0)
			for _, d := range dialects {
				got, why := readText(t, d, c.page)
				switch {
				case d.Name != c.want.Engine:
					if why != familyNotFound {
						t.Errorf("%s read it too: %+v", d.Name, got)
					}
				case why != "":
					t.Errorf("refused: %s", why)
				case !sameSignals(got, c.want):
					t.Errorf("read\n%+v, want\n%+v", got, c.want)
				}
			}
		})
	}
}

// One family that holds different things is read by its label alone, and a
// cache is not made up from numbers that do not belong together.
func TestLabelledNumbers(t *testing.T) {
	const (
		request = "nv_trt_llm_request_metrics"
		block   = "nv_trt_llm_kv_cache_block_metrics"
		waiting = request + "{request_type=\"waiting\"} 1\n"
	)
	for what, c := range map[string]struct {
		text string
		get  func(llmlb.Signals) any
		want any
	}{
		"without the label":   {waiting + request + " 7\n", runningOf, float64(unknown)},
		"by another label":    {waiting + request + "{request_type=\"max\",model=\"scheduled\"} 512\n", runningOf, float64(unknown)},
		"active of old":       {request + "{request_type=\"active\"} 3\n", runningOf, 3.0},
		"two models":          {request + "{model=\"a\",request_type=\"scheduled\"} 3\n" + request + "{model=\"b\",request_type=\"scheduled\"} 4\n", runningOf, 7.0},
		"more used than all":  {waiting + block + "{kv_cache_block_type=\"used\"} 9\n" + block + "{kv_cache_block_type=\"max\"} 8\n", usageOf, float64(unknown)},
		"no blocks at all":    {waiting + block + "{kv_cache_block_type=\"used\"} 0\n" + block + "{kv_cache_block_type=\"max\"} 0\n", usageOf, float64(unknown)},
		"used of all":         {waiting + block + "{kv_cache_block_type=\"used\"} 2\n" + block + "{kv_cache_block_type=\"max\"} 8\n", usageOf, 0.25},
		"blocks without size": {waiting + block + "{kv_cache_block_type=\"max\"} 8\n", capacityOf, float64(unknown)},
		"blocks of one size": {
			waiting + block + "{kv_cache_block_type=\"max\",model=\"a\"} 8\n" + block + "{kv_cache_block_type=\"max\",model=\"b\"} 2\n" +
				block + "{kv_cache_block_type=\"tokens_per\",model=\"a\"} 64\n" + block + "{kv_cache_block_type=\"tokens_per\",model=\"b\"} 64\n", capacityOf, 640.0,
		},
		"blocks of two sizes": {
			waiting + block + "{kv_cache_block_type=\"max\",model=\"a\"} 8\n" + block + "{kv_cache_block_type=\"max\",model=\"b\"} 2\n" +
				block + "{kv_cache_block_type=\"tokens_per\",model=\"a\"} 64\n" + block + "{kv_cache_block_type=\"tokens_per\",model=\"b\"} 32\n", capacityOf, float64(unknown),
		},
	} {
		t.Run(what, func(t *testing.T) {
			got, why := readText(t, &triton, c.text)
			if why != "" {
				t.Fatalf("refused: %s", why)
			}
			if v := c.get(got); v != c.want {
				t.Errorf("read %v, want %v", v, c.want)
			}
		})
	}
	// What LMDeploy's API server holds back is load even where the engine's own
	// queue is not told.
	if got, why := readText(t, &lmdeploy, "lmdeploy:num_api_requests_waiting 3\n"); why != "" || got.Waiting != 3 {
		t.Errorf("3 requests held back were read as %v waiting (%s)", got.Waiting, why)
	}
}

func runningOf(s llmlb.Signals) any { return s.Running }
func usageOf(s llmlb.Signals) any   { return s.KVUsage }
