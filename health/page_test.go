package health

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

func readText(t testing.TB, d *Dialect, text string) (llmlb.Signals, reason) {
	t.Helper()
	sc := scratches.Get().(*scratch)
	defer sc.release()
	s, _, why := d.read(time.Unix(1, 0), []byte(text), http.Header{}, sc)
	return s, why
}

// Each way of writing a page that some engine or proxy uses gives the same
// three waiting requests.
func TestOddButLegalText(t *testing.T) {
	const name = "vllm:num_requests_waiting"
	for what, text := range map[string]string{
		"plain":             name + " 3\n",
		"no final newline":  name + " 3",
		"crlf":              "# TYPE " + name + " gauge\r\n" + name + "{engine=\"0\"} 3\r\nother 1\r\n",
		"tabs":              "\t" + name + "\t{engine=\"0\"}\t3\t\n",
		"end mark":          name + " 3\n# EOF\n",
		"timestamp":         name + " 3 1700000000000\n",
		"float timestamp":   name + " 3 1700000000.123\n",
		"exemplar":          name + "{engine=\"0\"} 3 # {trace_id=\"x\"} 1 1.5\n",
		"escapes in labels": name + `{model_name="a\"b\n}c,d\\",engine="0",} 3` + "\n",
		"scientific":        name + " 3e0\n",
		"unknown type":      "# TYPE " + name + " stateset\n" + name + " 3\n",
		"help twice":        "# HELP " + name + " a\n# HELP " + name + " b\n# TYPE " + name + " gauge\n# TYPE " + name + " counter\n" + name + " 3\n",
		"type after sample": name + " 3\n# TYPE " + name + " gauge\n",
		"broken neighbours": "{}{}\n<p>\nfoo{bar 1\n" + name + " 3\nvllm:num_requests_running{a=\"\xff\"} 7\nvllm:kv_cache_usage_perc{a=\"x\" 0.5\nfoo 1_000\n",
		"bad value first":   name + "{engine=\"0\"} many\n" + name + "{engine=\"1\"} 3\n",
		"bad label first":   name + "{=\"0\"} 8\n" + name + "{engine=\"1\"} 3\n",
		"blank lines":       "\n\n" + name + " 3\n\n",
		"split family":      name + "{engine=\"0\"} 1\nother 5\n" + name + "{engine=\"1\"} 2\n",
	} {
		t.Run(what, func(t *testing.T) {
			got, why := readText(t, &vLLM, text)
			if why != "" || got.Waiting != 3 || got.Running != unknown || got.KVUsage != unknown {
				t.Errorf("waiting %v, running %v, kv %v, refused for %q; want 3 and unknown", got.Waiting, got.Running, got.KVUsage, why)
			}
		})
	}
}

// How series of one family make one number for the endpoint.
func TestSeriesMakeOneNumber(t *testing.T) {
	const run, wait, kv = "vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"
	for _, c := range []struct {
		what, text    string
		d             *Dialect
		waiting       float64
		usage, maxima float64
	}{
		{
			"data-parallel engines add up", wait + `{engine="0"} 4` + "\n" + wait + `{engine="1"} 2` + "\n" + kv + `{engine="0"} 0.9` + "\n" + kv + `{engine="1"} 0.1` + "\n",
			&vLLM, 6, 0.5, 0.9,
		},
		{
			"models add up", wait + `{model_name="a",engine="0"} 4` + "\n" + wait + `{model_name="b",engine="0"} 2` + "\n",
			&vLLM, 6, unknown, unknown,
		},
		{
			"processes of one engine do not", wait + `{engine="0",pid="17"} 4` + "\n" + wait + `{engine="0",pid="18"} 3` + "\n" +
				kv + `{engine="0",pid="17"} 0.2` + "\n" + kv + `{engine="0",pid="18"} 0.4` + "\n",
			&vLLM, 4, 0.4, 0.4,
		},
		{
			"tensor-parallel ranks do not, data-parallel ranks do",
			`sglang:num_queue_reqs{dp_rank="0",tp_rank="0"} 5` + "\n" + `sglang:num_queue_reqs{dp_rank="0",tp_rank="1"} 5` + "\n" +
				`sglang:num_queue_reqs{dp_rank="1",tp_rank="0",moe_ep_rank="0"} 2` + "\n" + `sglang:num_queue_reqs{dp_rank="1",tp_rank="1",pp_rank="1",moe_ep_rank="1"} 1` + "\n" +
				`sglang:token_usage{dp_rank="0",tp_rank="0"} 0.3` + "\n" + `sglang:token_usage{dp_rank="0",tp_rank="1"} 0.5` + "\n" + `sglang:token_usage{dp_rank="1",tp_rank="0"} 0.1` + "\n",
			&sglang, 7, 0.3, 0.5,
		},
		{
			"priorities break the total down",
			`sglang:num_queue_reqs{priority=""} 9` + "\n" + `sglang:num_queue_reqs{priority="0"} 6` + "\n" + `sglang:num_queue_reqs{priority="1"} 3` + "\n",
			&sglang, 9, unknown, unknown,
		},
		{
			"a rank without a number is left out", wait + `{engine="0"} NaN` + "\n" + wait + `{engine="1"} 2` + "\n" + kv + `{engine="broken"} NaN` + "\n" + kv + `{engine="1"} 0.5` + "\n",
			&vLLM, 2, 0.5, 0.5,
		},
		{
			"reasons of waiting are not added", wait + " 5\n" + `vllm:num_requests_waiting_by_reason{reason="capacity"} 5` + "\n",
			&vLLM, 5, unknown, unknown,
		},
		{
			"the new KV name wins wherever it stands", wait + " 0\nvllm:kv_cache_usage_perc 0.05\nvllm:gpu_cache_usage_perc 0.95\n",
			&vLLM, 0, 0.05, 0.05,
		},
		{
			"the old one counts where the new one has no number", wait + " 0\nvllm:kv_cache_usage_perc NaN\nvllm:gpu_cache_usage_perc 0.95\n",
			&vLLM, 0, 0.95, 0.95,
		},
		{
			"creation times are not numbers", run + "_created 1.7e9\n" + wait + " 1\n" + wait + "_created 1.7e9\n",
			&vLLM, 1, unknown, unknown,
		},
		{
			"old llama.cpp tells its cache", "llamacpp:requests_processing 2\nllamacpp:requests_deferred 3\nllamacpp:kv_cache_usage_ratio 0.42\n",
			&llamacpp, 3, 0.42, 0.42,
		},
	} {
		t.Run(c.what, func(t *testing.T) {
			got, why := readText(t, c.d, c.text)
			if why != "" {
				t.Fatalf("refused: %s", why)
			}
			if got.Waiting != c.waiting || math.Abs(got.KVUsage-c.usage) > 1e-9 || got.KVUsageMax != c.maxima {
				t.Errorf("waiting %v, kv %v, fullest %v; want %v, %v, %v", got.Waiting, got.KVUsage, got.KVUsageMax, c.waiting, c.usage, c.maxima)
			}
		})
	}
}

// Values outside what the family can mean are not believed, and not clamped
// into something that looks like an idle or a full server.
func TestValuesOutOfRange(t *testing.T) {
	for _, v := range []string{"95", "-1", "-1.0", "+Inf", "-Inf", "NaN", "1e309", "1.2"} {
		got, why := readText(t, &vLLM, "vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc "+v+"\n")
		if why != "" || got.KVUsage != unknown || got.KVUsageMax != unknown {
			t.Errorf("kv usage %s was read as %v (%s), want unknown", v, got.KVUsage, why)
		}
	}
	for v, want := range map[string]reason{
		"-1": outOfRange("vllm:num_requests_waiting"), "+Inf": outOfRange("vllm:num_requests_waiting"),
		"1.7769e+09": outOfRange("vllm:num_requests_waiting"), "1e309": outOfRange("vllm:num_requests_waiting"),
		"NaN": familyNotFound,
	} {
		got, why := readText(t, &vLLM, "vllm:num_requests_waiting "+v+"\n")
		if got.Waiting != unknown || why != want {
			t.Errorf("waiting %s was read as %v (%q, want %q)", v, got.Waiting, why, want)
		}
	}
	if got, _ := readText(t, &vLLM, "vllm:num_requests_waiting 1\nvllm:kv_cache_usage_perc 1.0000000002\n"); got.KVUsage != 1 {
		t.Errorf("a share over 1 by rounding was read as %v, want 1", got.KVUsage)
	}
}

// What else the pages tell: the size of the cache, sleep, the start, the
// engine's own time to first token.
func TestOtherNumbers(t *testing.T) {
	const wait = "vllm:num_requests_waiting 1\n"
	for what, c := range map[string]struct {
		d    *Dialect
		text string
		get  func(llmlb.Signals) any
		want any
	}{
		"cache in tokens":             {&vLLM, wait + `vllm:cache_config_info{block_size="1568",kv_cache_size_tokens="66901",num_gpu_blocks="49"} 1` + "\n", capacityOf, 66901.0},
		"cache in blocks":             {&vLLM, wait + `vllm:cache_config_info{block_size="16",num_gpu_blocks="100"} 1` + "\n", capacityOf, 1600.0},
		"cache of two engines":        {&vLLM, wait + `vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="100"} 1` + "\n" + `vllm:cache_config_info{block_size="16",engine="1",num_gpu_blocks="100"} 1` + "\n", capacityOf, 3200.0},
		"cache not profiled yet":      {&vLLM, wait + `vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1` + "\n", capacityOf, float64(unknown)},
		"cache in pages":              {&sglang, "sglang:num_queue_reqs 1\n" + `sglang:cache_config_info{page_size="64",num_pages="10"} 1` + "\n", capacityOf, 640.0},
		"asleep":                      {&vLLM, wait + sleepStates(0, 1, 0), sleepingOf, true},
		"awake":                       {&vLLM, wait + sleepStates(1, 0, 0), sleepingOf, false},
		"sleep not told":              {&vLLM, wait, sleepingOf, false},
		"start":                       {&vLLM, wait + "process_start_time_seconds 1.7e9\n", startOf, 1.7e9},
		"start of several":            {&vLLM, wait + "process_start_time_seconds{pid=\"1\"} 1.7e9\nprocess_start_time_seconds{pid=\"2\",x=\"\"} 1.8e9\n", startOf, 1.7e9},
		"ttft of two engines":         {&vLLM, wait + "vllm:time_to_first_token_seconds_sum{engine=\"0\"} 1.5\nvllm:time_to_first_token_seconds_sum{engine=\"1\"} 2\nvllm:time_to_first_token_seconds_bucket{le=\"1\"} 7\nvllm:time_to_first_token_seconds_count{engine=\"0\"} 3\nvllm:time_to_first_token_seconds_count{engine=\"1\"} 4\n", ttftOf, [2]float64{3.5, 7}},
		"ttft without its count":      {&vLLM, wait + "vllm:time_to_first_token_seconds_sum 1.5\n", ttftOf, [2]float64{unknown, unknown}},
		"cached tokens over sources":  {&sglang, "sglang:num_queue_reqs 1\nsglang:cached_tokens_total{cache_source=\"device\"} 5\nsglang:cached_tokens_total{cache_source=\"host\"} 2\n", func(s llmlb.Signals) any { return s.CachedTokens }, 7.0},
		"hit counters are not cached": {&vLLM, wait + "vllm:prefix_cache_hits_total 1e10\n", func(s llmlb.Signals) any { return s.CachedTokens }, float64(unknown)},
	} {
		t.Run(what, func(t *testing.T) {
			got, why := readText(t, c.d, c.text)
			if why != "" {
				t.Fatalf("refused: %s", why)
			}
			if v := c.get(got); v != c.want {
				t.Errorf("read %v, want %v", v, c.want)
			}
		})
	}
}

func capacityOf(s llmlb.Signals) any { return s.KVCapacity }
func sleepingOf(s llmlb.Signals) any { return s.Sleeping }
func startOf(s llmlb.Signals) any    { return s.ProcessStart }
func ttftOf(s llmlb.Signals) any     { return [2]float64{s.TTFTSum, s.TTFTCount} }

func sleepStates(awake, offloaded, discarded int) string {
	const f = "vllm:engine_sleep_state{engine=\"0\",sleep_state=%q} %d\n"
	return fmt.Sprintf(f, "awake", awake) + fmt.Sprintf(f, "weights_offloaded", offloaded) + fmt.Sprintf(f, "discard_all", discarded)
}

// llama.cpp tells its start in a header.
func TestStartInHeader(t *testing.T) {
	sc := scratches.Get().(*scratch)
	defer sc.release()
	header := http.Header{"Process-Start-Time-Unix": {"1790000000"}}
	got, _, why := llamacpp.read(time.Now(), []byte("llamacpp:requests_processing 1\n"), header, sc)
	if why != "" || got.ProcessStart != 1790000000 {
		t.Errorf("start is %v (%s)", got.ProcessStart, why)
	}
}

// What a hostile page can make us keep is bounded.
func TestBoundsOfAPage(t *testing.T) {
	var b strings.Builder
	for i := range maxSeries + 10 {
		fmt.Fprintf(&b, "vllm:num_requests_waiting{engine=\"%d\"} 1\n", i)
	}
	if _, why := readText(t, &vLLM, b.String()); why != "too many series" {
		t.Errorf("%d series gave %q", maxSeries+10, why)
	}
	b.Reset()
	for i := range 1000 {
		fmt.Fprintf(&b, "vllm:num_requests_waiting{model_name=\"m%d\"} 1\n", i)
	}
	fmt.Fprintf(&b, "vllm:num_requests_waiting{model_name=%q} 1\n", strings.Repeat("x", 1000))
	got, why := readText(t, &vLLM, b.String())
	if why != "" || got.Waiting != 1001 || len(got.Models) != maxModels {
		t.Errorf("waiting %v, %d models, refused for %q", got.Waiting, len(got.Models), why)
	}
	if !slices.IsSorted(got.Models) {
		t.Error("models are not sorted")
	}
}
