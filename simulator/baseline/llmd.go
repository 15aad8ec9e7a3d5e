package baseline

import "github.com/caddy-llmlb/caddy-llmlb/simulator/virtual"

const (
	// llmdPrompt is how much of a prompt llm-d's index looks at: 256 blocks of 16
	// tokens.
	llmdPrompt = 4096

	llmdPrefixWeight = 3
	llmdQueueWeight  = 2
	llmdKVWeight     = 2
)

// llmd is the endpoint picker of llm-d and of the Gateway API Inference Extension
// (pkg/epp): the highest sum of
//
//	3 x matched / total blocks of the prompt
//	2 x (most waiting - waiting) / (most - fewest waiting), 1 where all have the same
//	2 x (1 - KV usage)
//
// which are its default weights; of equals any. Queue and KV usage are scraped. The
// index is a guess: 31,250 blocks of 16 tokens a server, tuned to what the engine
// says its memory holds, of the first 256 blocks of each prompt. With perfect
// signals it stands for llm-d's precise index, which knows the whole prompt.
//
// A further scorer, no-hit LRU, spreads prompts that are cached nowhere. It is not
// in the default, and does no better where servers are busy.
type llmd struct{}

// Remembers is virtual.Sized.
func (*llmd) Remembers() (perServer, perPrompt int) { return 0, llmdPrompt }

func (*llmd) Pick(v *virtual.View) int {
	total := v.Ask.Input
	if !v.Oracle {
		total = min(total, llmdPrompt)
	}
	most, fewest := waiting(&v.Servers[0]), waiting(&v.Servers[0])
	for i := range v.Servers {
		w := waiting(&v.Servers[i])
		most, fewest = max(most, w), min(fewest, w)
	}
	return least(v, func(_ int, s *virtual.Server) float64 {
		prefix := float64(min(s.Match, total)) / float64(total)
		queue := 1.0
		if most > fewest {
			queue = float64(most-waiting(s)) / float64(most-fewest)
		}
		kv := 1 - max(0, s.KVUsage)
		return -(llmdPrefixWeight*prefix + llmdQueueWeight*queue + llmdKVWeight*kv)
	})
}

// waiting is 0 before the first scrape, as in llm-d.
func waiting(s *virtual.Server) int { return max(0, s.Waiting) }
