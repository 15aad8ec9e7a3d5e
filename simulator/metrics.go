package simulator

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Reasons why a request ended, as vLLM names them.
const (
	reasonStop   = "stop"
	reasonLength = "length"
	reasonAbort  = "abort"
	reasonError  = "error"
)

var reasons = [...]string{reasonStop, reasonLength, reasonAbort, reasonError}

// ttftBuckets are the upper bounds of vLLM's histogram, in seconds.
var ttftBuckets = [...]float64{
	0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
	1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560,
}

// counters are what the metrics page shows beside the engine's own numbers.
type counters struct {
	prompt, cached int64
	ttft           [len(ttftBuckets) + 1]int64 // the last one has no bound
	ttftSum        float64
	ended          [len(reasons)]int64
}

// firstToken counts a prompt as done. Latency is real time, as a client sees
// it, whatever the speed.
func (c *counters) firstToken(input, cached int, after time.Duration) {
	c.prompt += int64(input)
	c.cached += int64(cached)
	sec := after.Seconds()
	c.ttftSum += sec
	i := 0
	for i < len(ttftBuckets) && sec > ttftBuckets[i] {
		i++
	}
	c.ttft[i]++
}

func (c *counters) finished(reason string) {
	for i, r := range reasons {
		if r == reason {
			c.ended[i]++
		}
	}
}

// page writes the Prometheus text format.
type page struct {
	bytes.Buffer
	labels string
}

func (p *page) family(name, kind, help string) {
	fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// sample writes one series; more are labels beside the common ones.
func (p *page) sample(name, more string, v float64) {
	labels := p.labels
	if more != "" {
		labels += "," + more
	}
	fmt.Fprintf(p, "%s{%s} %s\n", name, labels, number(v))
}

func (p *page) single(name, kind, help string, v float64) {
	p.family(name, kind, help)
	p.sample(name, "", v)
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// metrics shows the server's state with vLLM's names.
func (s *server) metrics(w http.ResponseWriter, _ *http.Request) error {
	s.mu.Lock()
	st, c := s.replica.Stats(), s.counters
	s.mu.Unlock()

	p := &page{labels: fmt.Sprintf(`engine="0",model_name="%s"`, escapeLabel.Replace(s.options.model))}
	p.single("vllm:num_requests_running", "gauge", "Requests in the batch.", float64(st.Running))
	p.single("vllm:num_requests_waiting", "gauge", "Requests waiting to be scheduled.", float64(st.Waiting))
	p.single("vllm:kv_cache_usage_perc", "gauge", "Share of the KV memory in use, 1 is all of it.", st.KVUsage())
	p.single("vllm:prefix_cache_queries_total", "counter", "Prompt tokens looked up in the prefix cache.", float64(st.QueryTokens))
	p.single("vllm:prefix_cache_hits_total", "counter", "Prompt tokens found in the prefix cache.", float64(st.HitTokens))
	p.single("vllm:num_preemptions_total", "counter", "Sequences that had to give up their memory.", float64(st.Preemptions))
	p.single("vllm:prompt_tokens_total", "counter", "Prompt tokens processed.", float64(c.prompt))
	p.single("vllm:prompt_tokens_cached_total", "counter", "Prompt tokens taken from the prefix cache.", float64(c.cached))
	p.single("vllm:generation_tokens_total", "counter", "Tokens generated.", float64(st.GeneratedTokens))

	p.family("vllm:request_success_total", "counter", "Requests that ended, by reason.")
	for i, reason := range reasons {
		p.sample("vllm:request_success_total", `finished_reason="`+reason+`"`, float64(c.ended[i]))
	}

	const ttft = "vllm:time_to_first_token_seconds"
	p.family(ttft, "histogram", "Time from arrival to the first token.")
	var total int64
	for i, n := range c.ttft {
		bound := "+Inf"
		if i < len(ttftBuckets) {
			bound = number(ttftBuckets[i])
		}
		total += n
		p.sample(ttft+"_bucket", `le="`+bound+`"`, float64(total))
	}
	p.sample(ttft+"_sum", "", c.ttftSum)
	p.sample(ttft+"_count", "", float64(total))

	p.family("vllm:cache_config_info", "gauge", "How the KV memory is set up.")
	fmt.Fprintf(p, "vllm:cache_config_info{block_size=\"%d\",cache_dtype=\"auto\",enable_prefix_caching=\"True\",engine=\"0\",num_gpu_blocks=\"%d\"} 1\n",
		s.engine.BlockSize, st.TotalBlocks)
	p.family("process_start_time_seconds", "gauge", "Unix time at which the simulated server was made.")
	fmt.Fprintf(p, "process_start_time_seconds %s\n", number(float64(s.started.UnixMilli())/1000))

	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(p.Len()))
	_, err := w.Write(p.Bytes())
	return err
}
