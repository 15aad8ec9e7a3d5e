package health

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// loadsPage is what SGLang answers at /v1/loads with two data-parallel ranks, as
// far as it is read, and some of what is not.
const loadsPage = `{"timestamp":"2026-08-06T09:15:23+00:00","version":"0.5.10","loads":[
{"dp_rank":0,"num_running_reqs":12,"num_waiting_reqs":4,"num_waiting_uncached_tokens":9000,"num_used_tokens":50000,
 "num_total_tokens":62000,"max_total_num_tokens":200000,"max_running_requests":256,"token_usage":0.25,"gen_throughput":811.5,
 "cache_hit_rate":0.5,"utilization":0.0,"memory":{"weight_gb":14.9},"speculative":null},
{"dp_rank":1,"num_running_reqs":8,"num_waiting_reqs":1,"num_waiting_uncached_tokens":500,"num_used_tokens":150000,
 "num_total_tokens":151000,"max_total_num_tokens":200000,"max_running_requests":256,"token_usage":0.75,"gen_throughput":402.25,
 "cache_hit_rate":0.1,"utilization":0.0}]}`

// The load of SGLang without --enable-metrics, summed over its ranks.
func TestSGLangLoadsPage(t *testing.T) {
	want := llmlb.NoSignals(time.Unix(1, 0))
	want.Engine, want.Running, want.Waiting, want.WaitingTokens = "sglang", 20, 5, 9500
	want.KVUsage, want.KVUsageMax, want.KVCapacity = 0.5, 0.75, 400000
	got, why := readText(t, &sglangLoads, loadsPage)
	if why != "" || !sameSignals(got, want) {
		t.Errorf("read (%s)\n%+v, want\n%+v", why, got, want)
	}
	for _, d := range dialects {
		if d == &sglangLoads {
			continue
		}
		if s, why := readText(t, d, loadsPage); why == "" {
			t.Errorf("%s at %s read it too: %+v", d.Name, d.Path, s)
		}
	}
}

// Pages of the same kind as strange as a server may send them: a number that is
// missing or of another type is unknown, and the rest of the page counts.
func TestOddLoadsPages(t *testing.T) {
	const none = float64(unknown)
	for what, c := range map[string]struct {
		page                            string
		running, waiting, tokens, usage float64
		why                             reason
	}{
		"one rank":             {`{"loads":[{"num_running_reqs":3,"num_waiting_reqs":2,"token_usage":0.5,"max_total_num_tokens":10}]}`, 3, 2, none, 0.5, ""},
		"idle":                 {`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0,"token_usage":0.0,"max_total_num_tokens":10}]}`, 0, 0, none, 0, ""},
		"idle, size not told":  {`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0}]}`, 0, 0, none, none, ""},
		"not ready":            {`{"loads":[{"dp_rank":0,"num_running_reqs":0,"num_waiting_reqs":0,"token_usage":0,"max_total_num_tokens":0}]}`, 0, 0, none, 0, notReady},
		"one of two ready":     {`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0,"max_total_num_tokens":0},{"num_running_reqs":0,"num_waiting_reqs":0,"max_total_num_tokens":9}]}`, 0, 0, none, none, ""},
		"no ranks":             {`{"loads":[]}`, none, none, none, none, familyNotFound},
		"null":                 {`{"loads":null}`, none, none, none, none, familyNotFound},
		"ranks without load":   {`{"loads":[{"dp_rank":0},{}]}`, none, none, none, none, familyNotFound},
		"waiting not told":     {`{"loads":[{"num_running_reqs":3}]}`, 3, none, none, none, ""},
		"numbers as text":      {`{"loads":[{"num_running_reqs":"3","num_waiting_reqs":2,"token_usage":[0.5]}]}`, none, 2, none, none, ""},
		"nulls":                {`{"loads":[{"num_running_reqs":null,"num_waiting_reqs":2,"token_usage":null}]}`, none, 2, none, none, ""},
		"true":                 {`{"loads":[{"num_running_reqs":true,"num_waiting_reqs":2}]}`, none, 2, none, none, ""},
		"no objects":           {`{"loads":[1,"x",null,[],{"num_running_reqs":3}]}`, 3, none, none, none, ""},
		"out of range":         {`{"loads":[{"num_running_reqs":3,"token_usage":95}]}`, 3, none, none, none, ""},
		"too large a number":   {`{"loads":[{"num_running_reqs":3,"token_usage":1e309}]}`, 3, none, none, none, ""},
		"negative alone":       {`{"loads":[{"num_running_reqs":-3}]}`, none, none, none, none, outOfRange("num_running_reqs")},
		"a rank told twice":    {`{"loads":[{"dp_rank":0,"num_running_reqs":3},{"dp_rank":0,"num_running_reqs":2},{"dp_rank":1,"num_running_reqs":1}]}`, 4, none, none, none, ""},
		"list told twice":      {`{"loads":[{"num_running_reqs":3}],"loads":[{"num_running_reqs":9}]}`, 3, none, none, none, ""},
		"list behind others":   {`{"aggregate":{"loads":[{"num_running_reqs":9}]},"a":[[1]],"loads":[{"num_running_reqs":3}]}`, 3, none, none, none, ""},
		"spaces":               {" {\n\"loads\" : [ { \"num_running_reqs\" : 3 , \"num_waiting_uncached_tokens\" : 7 } ] }\n", 3, none, 7, none, ""},
		"another object":       {`{"detail":"Not Found"}`, none, none, none, none, familyNotFound},
		"a list":               {`[{"num_running_reqs":3}]`, none, none, none, none, familyNotFound},
		"the list an object":   {`{"loads":{"num_running_reqs":3}}`, none, none, none, none, familyNotFound},
		"empty":                {"", none, none, none, none, familyNotFound},
		"text":                 {"sglang:num_running_reqs 3\n", none, none, none, none, familyNotFound},
		"cut off":              {`{"loads":[{"num_running_reqs":3},{"num_runn`, none, none, none, none, brokenJSON},
		"not a number of JSON": {`{"loads":[{"num_running_reqs":NaN}]}`, none, none, none, none, brokenJSON},
		"nested deep":          {`{"a":` + strings.Repeat("[", 200000) + `}`, none, none, none, none, brokenJSON},
	} {
		t.Run(what, func(t *testing.T) {
			got, why := readText(t, &sglangLoads, c.page)
			if why != c.why || got.Running != c.running || got.Waiting != c.waiting || got.WaitingTokens != c.tokens || got.KVUsage != c.usage {
				t.Errorf("running %v, waiting %v, tokens %v, kv %v (%q); want %v, %v, %v, %v (%q)",
					got.Running, got.Waiting, got.WaitingTokens, got.KVUsage, why, c.running, c.waiting, c.tokens, c.usage, c.why)
			}
		})
	}
}

// Ollama tells which models are in memory, and no load. A name that ends in
// :latest may be asked for without.
func TestOllamaPage(t *testing.T) {
	const page = `{"models":[
{"name":"llama3.2:latest","model":"llama3.2:latest","size":4137025024,"digest":"a80c","details":{"family":"llama"},"expires_at":"2026-08-06T09:15:23Z","size_vram":4137025024,"context_length":4096},
{"name":"qwen3:8b","model":"qwen3:8b","size":6591830464,"expires_at":"2026-08-06T09:15:23Z","size_vram":0}]}`
	got, why := readText(t, &ollama, page)
	if why != "" || got.HasLoad() || got.Loads != llmlb.LoadsModels || got.LoadSeconds != 10 ||
		fmt.Sprint(got.Resident) != "[llama3.2:latest llama3.2 qwen3:8b]" {
		t.Errorf("read %+v (%s)", got, why)
	}
	for page, want := range map[string]reason{
		`{"models":[]}`:                           "",
		`{"models":null}`:                         "",
		`{"models":[{"id":"m"}]}`:                 familyNotFound,
		`{"models":["m"]}`:                        familyNotFound,
		`{"models":[{"name":"m"}]}`:               familyNotFound,
		`{"models":[{"name":7,"size":1}]}`:        familyNotFound,
		`{"models":[{"name":"\u202e","size":1}]}`: familyNotFound,
		`{"object":"list","data":[{"id":"m"}]}`:   familyNotFound,
		`{"error":"not found"}`:                   familyNotFound,
		`{"models":`:                              brokenJSON,
	} {
		got, why := readText(t, &ollama, page)
		if why != want || len(got.Resident) > 0 {
			t.Errorf("%s: %v (%q), want %q", page, got.Resident, why, want)
		}
	}
}

// What a hostile list can make us keep is bounded.
func TestBoundsOfAList(t *testing.T) {
	var b strings.Builder
	for i := range maxRecords + 10 {
		fmt.Fprintf(&b, `,{"num_running_reqs":1,"name":"m%d","size":1}`, i)
	}
	rest := b.String()[1:] + `,{"num_running_reqs":1,"x":"` + strings.Repeat("y", maxRecord) + `"}`
	if got, why := readText(t, &sglangLoads, `{"loads":[`+rest+`]}`); why != "" || got.Running != maxRecords {
		t.Errorf("running %v (%s), want the first %d", got.Running, why, maxRecords)
	}
	if got, why := readText(t, &ollama, `{"models":[`+rest+`]}`); why != "" || len(got.Resident) != maxResident {
		t.Errorf("%d names (%s), want %d", len(got.Resident), why, maxResident)
	}
	long := `{"num_running_reqs":5,"x":"` + strings.Repeat("y", maxRecord) + `"}`
	if got, why := readText(t, &sglangLoads, `{"loads":[`+long+`,{"num_running_reqs":1}]}`); why != "" || got.Running != 1 {
		t.Errorf("running %v (%s), want the endless object left out", got.Running, why)
	}
}

// Whatever a JSON page holds, it is read without harm, and every number is
// Unknown or within what it can mean.
func FuzzLoads(f *testing.F) {
	for _, seed := range []string{
		loadsPage, `{"loads":[]}`, `{"loads":[{"dp_rank":"0","num_running_reqs":1e400,"token_usage":-0}]}`,
		`{"loads":[{"num_running_reqs":0,"num_waiting_reqs":0,"max_total_num_tokens":0}]}`,
		`{"loads":[{"\u006eum_running_reqs":3}]}`, `{"loads":[{}],"loads":3}`, `{"loads"`, `[]`, `null`, "\xef\xbb\xbf{}",
		`{"models":[{"name":"a:latest","size":1}]}`, `{"data":[{"id":"m","parent":"p"}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, d := range []*Dialect{&sglangLoads, &ollama} {
			s, why := readText(t, d, string(body))
			if why == "" && !s.HasLoad() && !d.Loadless {
				t.Errorf("%s: read without load", d.Name)
			}
			for _, v := range []struct{ got, most float64 }{
				{s.Running, llmlb.MaxRequests * maxRecords},
				{s.Waiting, llmlb.MaxRequests * maxRecords},
				{s.WaitingTokens, llmlb.MaxTokens * maxRecords},
				{s.KVUsage, 1},
				{s.KVUsageMax, 1},
				{s.KVCapacity, llmlb.MaxTokens * maxRecords},
			} {
				if v.got != llmlb.Unknown && (v.got < 0 || v.got > v.most) || math.IsNaN(v.got) {
					t.Errorf("%s: a number is %v in %+v", d.Name, v.got, s)
				}
			}
			if len(s.Resident) > maxResident+1 {
				t.Errorf("%s: %d names", d.Name, len(s.Resident))
			}
		}
	})
}
