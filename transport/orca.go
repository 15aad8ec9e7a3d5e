package transport

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Engines may tell their load in the head of an answer, when the request asks for
// it, in the manner of Open Request Cost Aggregation (ORCA). vLLM and Triton do,
// in answers that come whole.

// The headers of it. The client must see none of them: they tell how busy the
// servers are.
const (
	headerLoadFormat = "Endpoint-Load-Metrics-Format"
	headerLoad       = "Endpoint-Load-Metrics"
	headerLoadBinary = "Endpoint-Load-Metrics-Bin"
)

// loadFormat is the form asked for. Triton knows it in lower case only; vLLM
// takes either.
const loadFormat = "text"

const (
	// maxLoad is the longest header that is read, in bytes, maxLoadMetrics the
	// most metrics in it. Longer ones tell nothing.
	maxLoad        = 8 << 10
	maxLoadMetrics = 64
)

// askLoad asks for load where that is wanted. What the client may have asked for
// itself is dropped.
func (a *attempt) askLoad(req *http.Request) {
	delete(req.Header, headerLoadFormat)
	if a.orca && a.call.Generates() && req.Method == http.MethodPost {
		req.Header[headerLoadFormat] = []string{loadFormat}
	}
}

// hearLoad takes the load out of an answer's head.
func (a *attempt) hearLoad(h http.Header) {
	if !a.orca {
		return
	}
	values := h[headerLoad]
	delete(h, headerLoad)
	delete(h, headerLoadBinary)
	if len(values) == 1 { // of several nobody knows which is the engine's
		a.endpoint.ObserveHeader(readLoad(values[0], time.Now()))
	}
}

// readLoad returns what the header's value tells. It may be marked as TEXT or
// JSON, or not at all:
//
//	TEXT named_metrics.kv_cache_usage_perc=0.4, named_metrics.num_requests_waiting=1
//	JSON {"named_metrics": {"kv_cache_usage_perc": 0.4, "num_requests_waiting": 1}}
//
// What cannot be, or cannot be read, stays Unknown.
func readLoad(value string, now time.Time) llmlb.Signals {
	r := loadReader{Signals: llmlb.NoSignals(now)}
	if len(value) > maxLoad {
		return r.Signals
	}
	value = strings.TrimSpace(value)
	format, rest, _ := strings.Cut(value, " ")
	var whole bool
	switch {
	case strings.EqualFold(format, "TEXT"):
		whole = r.text(rest)
	case strings.EqualFold(format, "JSON"):
		whole = r.json(rest)
	case strings.HasPrefix(value, "{"):
		whole = r.json(value)
	default:
		whole = r.text(value)
	}
	if !whole {
		return llmlb.NoSignals(now)
	}
	return r.Signals
}

type loadReader struct {
	llmlb.Signals
	metrics int
}

// text reads metrics as name=value with commas between. It returns false when
// they are too many.
func (r *loadReader) text(list string) bool {
	for metric := range strings.SplitSeq(list, ",") {
		name, value, _ := strings.Cut(metric, "=")
		if !r.metric(strings.TrimSpace(name), strings.TrimSpace(value)) {
			return false
		}
	}
	return true
}

// json reads an object of metrics, with an object of named ones in it. It returns
// false when it is none, or when they are too many.
func (r *loadReader) json(object string) bool {
	var all, named map[string]json.RawMessage
	if json.Unmarshal([]byte(object), &all) != nil {
		return false
	}
	if inner, ok := all["named_metrics"]; ok && json.Unmarshal(inner, &named) != nil {
		return false
	}
	delete(all, "named_metrics")
	for _, metrics := range []map[string]json.RawMessage{all, named} {
		for name, value := range metrics {
			if !r.metric(name, string(value)) {
				return false
			}
		}
	}
	return true
}

// metric takes in one metric, and returns false when there were too many. Where
// two tell the same number, the one that shows the engine busier counts, whatever
// their order.
func (r *loadReader) metric(name, value string) bool {
	if r.metrics++; r.metrics > maxLoadMetrics {
		return false
	}
	v, err := strconv.ParseFloat(value, 64)
	if err != nil || !(v >= 0) {
		return true
	}
	switch strings.TrimPrefix(name, "named_metrics.") {
	case "num_requests_waiting":
		raise(&r.Waiting, v, llmlb.MaxRequests)
	case "num_requests_running":
		raise(&r.Running, v, llmlb.MaxRequests)
	case "kv_cache_usage_perc", "kv_cache_utilization":
		if v <= 1+llmlb.ShareSlack {
			raise(&r.KVUsage, min(v, 1), 1)
		}
	case "max_token_capacity":
		if 0 < v && v <= llmlb.MaxTokens && (r.KVCapacity < 0 || v < r.KVCapacity) {
			r.KVCapacity = v
		}
	}
	return true
}

func raise(number *float64, v, limit float64) {
	if v <= limit {
		*number = max(*number, v)
	}
}
