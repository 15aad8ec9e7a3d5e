package health

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Whatever a page says, it is read without harm, and every number is Unknown or
// within what it can mean.
func FuzzScrapePage(f *testing.F) {
	for _, seed := range []string{
		"", "\n", "# EOF", load(1, 2, 0.3), load(1, 2, 0.3)[:40],
		"vllm:num_requests_waiting{a=\"\\\"}\"} 3 # {t=\"x\"} 1\r\n",
		"vllm:num_requests_waiting{a=\"b\",a=\"c\"} 3\nvllm:num_requests_running 1e309\n",
		"vllm:num_requests_waiting{\xff=\"\"} 1\nvllm:kv_cache_usage_perc NaN",
		"vllm:cache_config_info{block_size=\"1e300\",num_gpu_blocks=\"1e300\"} 1\nvllm:num_requests_waiting 0x10\n",
		"sglang:num_queue_reqs{priority=\"\",tp_rank=\"0\"} +Inf\nsglang:token_usage 95\n",
		"llamacpp:requests_processing 31\nllamacpp:requests_deferred 7\n",
		trtllmPage, lmdeployPage, nimPage, tritonPage, tgiPage,
		"nv_trt_llm_request_metrics{request_type=\"waiting\"} 1\nnv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"max\"} 0\n",
		"nv_trt_llm_request_metrics 5\nnv_trt_llm_request_metrics{request_type=\"max\"} 512\n",
		"lmdeploy:num_api_requests_waiting 3\n",
		"<html><body>vllm:num_requests_waiting 1</body></html>", "{\"a\":1}",
		"vllm:num_requests_running 1\n" + loraInfo("2", "a1, a2", "a3", 1.7e9) + loraInfo("1e309", "\u202e", ",,,", 1.8e9),
		`{"loads":[{"dp_rank":0,"num_running_reqs":3,"num_waiting_reqs":1,"token_usage":0.5,"max_total_num_tokens":100}]}`,
		`{"loads":[{"num_running_reqs":-1,"token_usage":1e309,"num_waiting_reqs":"x"},[],null,7]}`,
		`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0,"max_total_num_tokens":0}]}`, `{"loads":[]}`, `{"loads":`,
		`{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","size":5137025024}]}`, `{"models":null}`, `{"models":[{"name":":latest","size":1}]}`,
		"vllm:engine_sleep_state{sleep_state=\"awake\"} 0\nvllm:num_requests_running 0\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		text := string(body)
		for _, d := range dialects {
			sc := scratches.Get().(*scratch)
			s, _, why := d.read(time.Unix(1, 0), body, http.Header{}, sc)
			sc.release()
			if (why == "") != (s.HasLoad() || d.Loadless) && why != notReady && !d.Loadless {
				t.Errorf("%s: reason %q with load %v", d.Name, why, s.HasLoad())
			}
			told := false
			for _, name := range slices.Concat(d.Running, d.Waiting, d.Held) {
				family, _, _ := selector(name)
				told = told || strings.Contains(text, family) || d.List != "" // JSON has escapes
			}
			if s.HasLoad() && !told {
				t.Errorf("%s: load out of nothing: %+v", d.Name, s)
			}
			if len(s.Resident) > maxResident+1 || s.ResidentMax > maxRoom || len(s.Resident) > 0 && s.Loads == llmlb.LoadsNothing {
				t.Errorf("%s: %d names of kind %d, room for %d", d.Name, len(s.Resident), s.Loads, s.ResidentMax)
			}
			for _, name := range s.Resident {
				if !nameable(name) {
					t.Errorf("%s: %q is no name", d.Name, name)
				}
			}
			for _, v := range []struct{ got, most float64 }{
				{s.Running, llmlb.MaxRequests * maxSeries},
				{s.Waiting, 2 * llmlb.MaxRequests * maxSeries},
				{s.WaitingTokens, llmlb.MaxTokens * maxSeries},
				{s.KVUsage, 1},
				{s.KVUsageMax, 1},
				{s.KVCapacity, llmlb.MaxTokens},
				{s.PromptTokens, llmlb.MaxTokens * maxSeries},
				{s.CachedTokens, llmlb.MaxTokens * maxSeries},
				{s.GenerationTokens, llmlb.MaxTokens * maxSeries},
				{s.TTFTSum, maxSeconds * maxSeries},
				{s.TTFTCount, llmlb.MaxTokens * maxSeries},
				{s.ProcessStart, maxSeconds},
			} {
				if v.got != llmlb.Unknown && (v.got < 0 || v.got > v.most) || math.IsNaN(v.got) {
					t.Errorf("%s: a number is %v in %+v", d.Name, v.got, s)
				}
			}
			if len(s.Models) > maxModels {
				t.Errorf("%s: %d models", d.Name, len(s.Models))
			}
		}
	})
}
