package health

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const unknown = llmlb.Unknown

// Pages published by others for each engine, read by hand for what they say.
func TestPublishedPages(t *testing.T) {
	for _, c := range []struct {
		file string
		want llmlb.Signals
		why  reason
	}{
		{file: "vllm_v0_aibrix.txt", want: llmlb.Signals{
			Engine: "vllm", Running: 0, Waiting: 0, WaitingTokens: unknown,
			KVUsage: 0, KVUsageMax: 0, KVCapacity: 16 * 81767,
			PromptTokens: 148, CachedTokens: unknown, GenerationTokens: 955,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
			Models: []string{"Qwen/Qwen2.5-Coder-1.5B-Instruct"},
		}},
		{file: "vllm_v1.txt", want: llmlb.Signals{
			Engine: "vllm", Running: 0, Waiting: 0, WaitingTokens: unknown,
			KVUsage: 0, KVUsageMax: 0, KVCapacity: unknown,
			PromptTokens: 0, CachedTokens: unknown, GenerationTokens: 0,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
			Models: []string{"llama-vllm-single"},
		}},
		// Two data-parallel engines.
		{file: "vllm_v1_dp2_fixture.txt", want: llmlb.Signals{
			Engine: "vllm", Running: 8, Waiting: 6, WaitingTokens: unknown,
			KVUsage: 0.68, KVUsageMax: 0.72, KVCapacity: unknown,
			PromptTokens: unknown, CachedTokens: unknown, GenerationTokens: unknown,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
			Models: []string{"qwen"},
		}},
		// Awake, with both KV names.
		{file: "vllm_mixed_v0_v1.txt", want: llmlb.Signals{
			Engine: "vllm", Running: 0, Waiting: 0, WaitingTokens: unknown,
			KVUsage: 0, KVUsageMax: 0, KVCapacity: 16 * 7281,
			PromptTokens: 5, CachedTokens: 64, GenerationTokens: 7,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
			Models: []string{"facebook/opt-125m"},
		}},
		// Trimmed to its cache lines: no load, so no telemetry.
		{file: "vllm_v1_hybrid.txt", why: familyNotFound, want: llmlb.Signals{
			Engine: "vllm", Running: unknown, Waiting: unknown, WaitingTokens: unknown,
			KVUsage: 0, KVUsageMax: 0, KVCapacity: 66901,
			PromptTokens: unknown, CachedTokens: unknown, GenerationTokens: unknown,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
			Models: []string{"Lorbus/Qwen3.6-27B-int4-AutoRound"},
		}},
		{file: "sglang_v0.4_overload.txt", want: llmlb.Signals{
			Engine: "sglang", Running: 162, Waiting: 2826, WaitingTokens: unknown,
			KVUsage: 0.28, KVUsageMax: 0.28, KVCapacity: unknown,
			PromptTokens: 8128902, CachedTokens: unknown, GenerationTokens: 7557572,
			TTFTSum: 2.3518979474117756e+06, TTFTCount: 11008, ProcessStart: unknown,
			Models: []string{"meta-llama/Llama-3.1-8B-Instruct"},
		}},
		{file: "sglang_v0.5.10.txt", want: llmlb.Signals{
			Engine: "sglang", Running: 0, Waiting: 0, WaitingTokens: unknown,
			KVUsage: 0.25, KVUsageMax: 0.25, KVCapacity: 430839,
			PromptTokens: 5, CachedTokens: 1, GenerationTokens: 32,
			TTFTSum: 0.02, TTFTCount: 1, ProcessStart: unknown,
			Models: []string{"facebook/opt-125m"},
		}},
		{file: "llamacpp_2026.txt", want: llmlb.Signals{
			Engine: "llamacpp", Running: 31, Waiting: 7, WaitingTokens: unknown,
			KVUsage: unknown, KVUsageMax: unknown, KVCapacity: unknown,
			PromptTokens: 120000, CachedTokens: 30000, GenerationTokens: 98765,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
		}},
		// Idle; its answers' lengths are beyond where the page was cut.
		{file: "tgi.txt", want: llmlb.Signals{
			Engine: "tgi", Running: 0, Waiting: 0, WaitingTokens: unknown,
			KVUsage: unknown, KVUsageMax: unknown, KVCapacity: unknown,
			PromptTokens: 662, CachedTokens: unknown, GenerationTokens: unknown,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
		}},
		// Of a release that tells no queue.
		{file: "triton_trtllm.txt", want: llmlb.Signals{
			Engine: "triton", Running: 1, Waiting: unknown, WaitingTokens: unknown,
			KVUsage: 1.0 / 6239, KVUsageMax: 1.0 / 6239, KVCapacity: 64 * 6239,
			PromptTokens: unknown, CachedTokens: unknown, GenerationTokens: unknown,
			TTFTSum: unknown, TTFTCount: unknown, ProcessStart: unknown,
		}},
	} {
		t.Run(c.file, func(t *testing.T) {
			body := published(t, c.file)
			c.want.At = time.Unix(1, 0)
			sc := scratches.Get().(*scratch)
			defer sc.release()
			d := dialectsNamed(c.want.Engine)[0]
			got, _, why := d.read(c.want.At, body, nil, sc)
			if why != c.why {
				t.Errorf("the page is refused for %q, want %q", why, c.why)
			}
			if !sameSignals(got, c.want) {
				t.Errorf("read\n%+v, want\n%+v", got, c.want)
			}
			// No other engine takes it for its own.
			for _, other := range dialects {
				if other == d {
					continue
				}
				if s, _, why := other.read(c.want.At, body, nil, sc); why != familyNotFound {
					t.Errorf("%s read it too: %+v", other.Name, s)
				}
			}
		})
	}
}

func published(t *testing.T, file string) []byte {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "shared", "testdata", "metrics", file))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the published page %s is not here: ../shared/testdata/metrics is absent", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return body
}

func sameSignals(a, b llmlb.Signals) bool {
	const rounding = 1e-9
	near := func(x, y float64) bool { return x-y < rounding && y-x < rounding }
	return a.At.Equal(b.At) && a.Engine == b.Engine && a.Sleeping == b.Sleeping && slices.Equal(a.Models, b.Models) &&
		a.Loads == b.Loads && slices.Equal(a.Resident, b.Resident) && a.ResidentMax == b.ResidentMax &&
		near(a.Running, b.Running) && near(a.Waiting, b.Waiting) && near(a.WaitingTokens, b.WaitingTokens) &&
		near(a.KVUsage, b.KVUsage) && near(a.KVUsageMax, b.KVUsageMax) && near(a.KVCapacity, b.KVCapacity) &&
		near(a.PromptTokens, b.PromptTokens) && near(a.CachedTokens, b.CachedTokens) &&
		near(a.GenerationTokens, b.GenerationTokens) && near(a.ProcessStart, b.ProcessStart) &&
		near(a.TTFTSum, b.TTFTSum) && near(a.TTFTCount, b.TTFTCount)
}
