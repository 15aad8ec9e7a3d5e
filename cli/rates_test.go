package cli

import (
	"strings"
	"testing"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// --rates shows a second table below the first, which stays as it is, and never
// a number that was not learned.
func TestFormatRates(t *testing.T) {
	fast := row("gpu-1", "10.4.0.11:8000", 14, 0, 0.61, 240)
	fast.PrefillSpeed, fast.FloorMillis, fast.ITLMillis, fast.Samples = new(14_820.4), new(38.2), new(8.21), 1520
	fast.PromptTokens, fast.PredictedMillis = 1850, 318.2 // 38.2 + (2,300 + 1,850) / 14.82
	fast.Calls, fast.PrefillTokens, fast.OutputTokens, fast.ErrorRate = 14, 2300, 9800, 0.021
	fresh := row("gpu-2", "10.4.0.12:8000", 0, 0, 0.01, 0)
	fresh.TTFTMillis, fresh.Samples, fresh.PromptTokens, fresh.PredictedMillis = nil, 2, 1000, 250
	models := []llmlb.ModelStatus{
		{Model: "llama-3.1-8b", BytesPerToken: new(4.26), OutputTokens: new(1186.7)},
		{Model: "qwen\x1b" + strings.Repeat("x", 100), BytesPerToken: new(3.1)},
		{},
	}
	zoned, heavy := fast, fresh
	zoned.Zone, zoned.Weight, heavy.Weight = "east", 1, 2.5
	for _, tc := range []struct {
		name  string
		pools []llmlb.PoolStatus
	}{
		{"learned", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{fast, fresh}, Models: models[:1]}}},
		{"model_names", []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{fresh}, Models: models[1:]}}},
		{"zones_and_weights", []llmlb.PoolStatus{
			{Pool: "default", Strategy: "work", Endpoints: []llmlb.EndpointStatus{zoned, heavy}},
			{Pool: "embed", Strategy: "work"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			if err := FormatRates(&b, tc.pools); err != nil {
				t.Fatal(err)
			}
			golden(t, "rates_"+tc.name+".txt", b.String())
		})
	}
}

func TestShowRates(t *testing.T) {
	v := at(serve(t, 200, encoded(t, worked())))
	v.rates = true
	var b strings.Builder
	if err := v.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "prefill tok/s") {
		t.Errorf("printed no rates:\n%s", b.String())
	}
}

func TestNumbersForPeople(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 999.4: "999", 999.6: "1,000", 1234567: "1,234,567", -1234: "-1,234", -0.2: "0"} {
		if got := grouped(x); got != want {
			t.Errorf("grouped(%v) = %q, want %q", x, got, want)
		}
	}
	for x, want := range map[float64]string{0: "0", 3: "3", 0.44: "0.4", 12.6: "13", 1200: "1,200"} {
		if got := requests(x); got != want {
			t.Errorf("requests(%v) = %q, want %q", x, got, want)
		}
	}
	for ms, want := range map[float64]string{0.42: "0.4ms", 8.21: "8.2ms", 9.96: "10ms", 28: "28ms", 1500: "1.5s"} {
		if got := fineLatency(&ms); got != want {
			t.Errorf("fineLatency(%v) = %q, want %q", ms, got, want)
		}
	}
}
