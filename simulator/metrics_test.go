package simulator

import (
	"context"
	"math"
	"os"
	"testing"
	"testing/synctest"
	"time"

	dto "github.com/prometheus/client_model/go"
)

// The page carries vLLM's families with vLLM's labels, and its numbers are
// those of what was served.
func TestMetricsPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := provision(t, &Handler{Name: "page", Model: "a \"quoted\"\\ model\n", KVTokens: 3200})
		for range 2 {
			serve(t, h, t.Context(), "/v1/completions", `{"prompt":"`+string(words(64))+`","max_tokens":5}`)
		}
		serve(t, h, t.Context(), "/v1/completions", `{"prompt":"x"}`)
		f := parse(t, serve(t, h, t.Context(), "/metrics", "").Body.Bytes())
		for name, want := range map[string]float64{
			"vllm:num_requests_running":       0,
			"vllm:num_requests_waiting":       0,
			"vllm:kv_cache_usage_perc":        0,
			"vllm:prefix_cache_queries_total": 64 + 64 + 1,
			"vllm:prefix_cache_hits_total":    63,
			"vllm:num_preemptions_total":      0,
			"vllm:prompt_tokens_total":        64 + 64 + 1,
			"vllm:prompt_tokens_cached_total": 63,
			"vllm:generation_tokens_total":    5 + 5 + defaultReplyTokens,
		} {
			if got := value(t, f, name); got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
			l := labels(f[name].Metric[0])
			if len(l) != 2 || l["engine"] != "0" || l["model_name"] != h.Model {
				t.Errorf("%s has labels %v", name, l)
			}
		}
		for reason, want := range map[string]float64{"stop": 1, "length": 2, "abort": 0, "error": 0} {
			if got := value(t, f, "vllm:request_success_total", "finished_reason", reason); got != want {
				t.Errorf("%v requests ended with %s, want %v", got, reason, want)
			}
		}
		info := labels(f["vllm:cache_config_info"].Metric[0])
		if info["block_size"] != "16" || info["num_gpu_blocks"] != "200" {
			t.Errorf("cache config %v", info)
		}
		ttft := f["vllm:time_to_first_token_seconds"]
		if ttft.GetType() != dto.MetricType_HISTOGRAM {
			t.Fatalf("TTFT is a %v", ttft.GetType())
		}
		hist := ttft.Metric[0].Histogram
		if hist.GetSampleCount() != 3 || len(hist.Bucket) != len(ttftBuckets)+1 {
			t.Errorf("histogram %v", hist)
		}
		// Three requests of 15 ms in the API server and 7 ms of prefill each.
		if sum := hist.GetSampleSum(); sum < 3*0.020 || sum > 3*0.030 {
			t.Errorf("TTFT sums up to %v s", sum)
		}
		for i, b := range hist.Bucket {
			want := uint64(0)
			if i >= 4 { // up to 0.04 s
				want = 3
			}
			if b.GetCumulativeCount() != want {
				t.Errorf("%d first tokens within %v s, want %d", b.GetCumulativeCount(), b.GetUpperBound(), want)
			}
		}
		if !math.IsInf(hist.Bucket[len(ttftBuckets)].GetUpperBound(), 1) {
			t.Error("the last bucket has a bound")
		}
	})
}

func words(tokens int) []byte {
	b := make([]byte, tokens*bytesPerToken)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return b
}

// While work is going on, the gauges show it.
func TestMetricsUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := provision(t, &Handler{Name: "load", KVTokens: 1600})
		ctx, leave := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			serve(t, h, ctx, "/v1/completions", `{"prompt":"`+string(words(800))+`","max_tokens":800,"stream":true}`)
			close(done)
		}()
		time.Sleep(time.Second)
		running, _, kv := gauges(t, h)
		if running != 1 || kv < 0.5 || kv > 0.75 {
			t.Errorf("%v running at kv %v", running, kv)
		}
		leave()
		<-done
	})
}

// A recorded vLLM page has the families that the simulator shows, of the same
// type.
func TestMetricsLikeVLLM(t *testing.T) {
	const path = "../../shared/testdata/metrics/vllm_mixed_v0_v1.txt"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no recorded vLLM page: %v", err)
	}
	recorded := parse(t, data)
	h := provision(t, &Handler{Name: "like"})
	for name, family := range parse(t, serve(t, h, t.Context(), "/metrics", "").Body.Bytes()) {
		switch want := recorded[name]; {
		case name == "vllm:time_to_first_token_seconds", name == "process_start_time_seconds":
			// Real pages have them; the recorded one is cut.
		case want == nil:
			t.Errorf("vLLM has no %s", name)
		case want.GetType() != family.GetType():
			t.Errorf("%s is a %v, in vLLM a %v", name, family.GetType(), want.GetType())
		}
	}
}
