package bound

import (
	"errors"
	"io/fs"
	"math"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

const conversation = "../../../shared/traces/mooncake_conversation_60min_dithered.jsonl.gz"

func openConversation(tb testing.TB) *trace.Trace {
	tb.Helper()
	t, err := trace.Open(conversation, trace.Options{})
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skipf("the trace is not here: %s", conversation)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// An independent prototype, whose cache had blocks of 512 tokens, found these for
// Mooncake's conversation trace.
func TestConversationHitRatios(t *testing.T) {
	tr := openConversation(t)
	const tolerance = 0.001
	if got := Hits(tr); math.Abs(got-0.374) > tolerance {
		t.Errorf("an infinite cache finds %.4f, want 0.374", got)
	}
	for _, want := range []struct {
		tokens   int
		lru, min float64
	}{
		{500_000, .046, .192},
		{1_000_000, .055, .257},
		{2_000_000, .087, .327},
		{4_000_000, .182, .373},
		{8_000_000, .268, .374},
		{16_000_000, .339, .374},
		{32_000_000, .366, .374},
	} {
		if got := PooledLRU(tr, want.tokens); math.Abs(got-want.lru) > tolerance {
			t.Errorf("LRU of %d tokens finds %.4f, want %.3f", want.tokens, got, want.lru)
		}
		if got := Belady(tr, want.tokens); math.Abs(got-want.min) > tolerance {
			t.Errorf("MIN of %d tokens finds %.4f, want %.3f", want.tokens, got, want.min)
		}
	}
}

// The prototype's bounds for eight replicas were a mean time to first token of
// 422 ms at twice the rate, and 3.49 times the rate. The latter is a little lower
// than here: it charges each prompt a whole step's Base and Weights, 5.3 ms, which
// several prompts may share.
func TestConversationLoadBounds(t *testing.T) {
	tr := openConversation(t)
	c := preset(t, "8b-h100")
	if got := LowerMeanTTFT(tr.Speed(2), c, 8); (got - 422*time.Millisecond).Abs() > time.Millisecond {
		t.Errorf("lower bound of the mean time to first token is %v, want 422 ms", got)
	}
	got := MaxRate(tr, c, 8)
	if got < 3.49 || got > 3.49*1.01 {
		t.Errorf("at most %.3f times the rate, want 3.49 or up to 1 %% more", got)
	}
	steps := float64(len(tr.Requests)) * (c.Costs.Base + c.Costs.Weights) / (8 * float64(duration(tr).Milliseconds()))
	if got := 1 / (1/got + steps); math.Abs(got-3.49) > 0.005 {
		t.Errorf("with a step for each prompt at most %.3f times the rate, want 3.49", got)
	}
}
