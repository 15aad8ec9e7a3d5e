package llmlb

import (
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

// maxModelName bounds how much of a model's name is shown: clients write it.
const maxModelName = 128

// PickStatus is one choice as GET /llmlb/explain shows it. Numbers that were not
// known are null.
type PickStatus struct {
	Pool     string    `json:"pool"`
	At       time.Time `json:"at"`
	Strategy string    `json:"strategy"`

	Model          string `json:"model,omitempty"`
	InputTokens    int    `json:"input_tokens"`
	ExpectedOutput int    `json:"expected_output_tokens"`
	Attempt        int    `json:"attempt"`

	Endpoint  string `json:"endpoint"`
	Decision  string `json:"decision"`
	Matched   int    `json:"matched_tokens"`
	Best      int    `json:"best_match_tokens"`
	Warm      int    `json:"warm_endpoints"`
	Left      string `json:"left,omitempty"` // the warm endpoint that a spill has left
	Predicted int64  `json:"predicted_ttft_ms"`

	// Scorers are those of "weighted", in the order of the configuration.
	Scorers []ScorerStatus `json:"scorers,omitempty"`

	// Candidates are the endpoint chosen and the next best; Of is how many
	// there were.
	Candidates []CandidateStatus `json:"candidates"`
	Of         int               `json:"of"`
}

// ScorerStatus is one scorer of the choice and what its opinion weighs.
type ScorerStatus struct {
	Name   string  `json:"name"`
	Weight float64 `json:"weight"`
}

// CandidateStatus is one endpoint of a PickStatus.
type CandidateStatus struct {
	Endpoint string `json:"endpoint"`

	// Barred is why it could not be taken. One that has a prediction all the
	// same could be: nothing better was left, so that this was waived.
	Barred string `json:"barred,omitempty"`

	Warm  bool `json:"warm,omitempty"`
	Home  bool `json:"home,omitempty"` // where the conversation's key falls
	Blind bool `json:"blind,omitempty"`

	Matched  int `json:"matched_tokens"`
	Uncached int `json:"uncached_tokens"`

	// Effort is the work of computing the uncached ones, in tokens of a short
	// prompt: what Speed goes by.
	Effort int `json:"effort_tokens"`

	Waiting       float64  `json:"waiting"`
	Running       float64  `json:"running"`
	PrefillTokens float64  `json:"prefill_tokens"`
	KVUsage       *float64 `json:"kv_usage"`
	Own           int      `json:"own_calls"`
	Context       float64  `json:"context_tokens"` // of our own open calls' prompts
	Beginning     float64  `json:"beginning"`      // requests whose own prompt stood before this one's

	// Speed, Floor and Predicted are null where nothing was predicted, because
	// the endpoint could not be taken.
	Speed      *float64 `json:"prefill_tokens_per_second"`
	Floor      *float64 `json:"ttft_floor_ms"`
	LoadDelay  float64  `json:"load_delay_ms,omitempty"` // of the adapter or model
	RecentTTFT *float64 `json:"ttft_ms"`
	Predicted  *float64 `json:"predicted_ttft_ms"`
	ErrorRate  float64  `json:"error_rate"`

	// Wait is what of the cost is others' doing; cold prompts go by it.
	Wait *float64 `json:"wait_ms,omitempty"`

	// Cost is what "work" minimises, in milliseconds; absent with others.
	Cost *float64 `json:"cost_ms,omitempty"`

	// Score is what "weighted" maximises: the weighted mean of Parts, which is
	// what each scorer said.
	Score *float64           `json:"score,omitempty"`
	Parts map[string]float64 `json:"parts,omitempty"`
}

// Explain returns the pool's last choices, the newest first.
func (p *Pool) Explain() []PickStatus {
	// The ring is copied first: writing the answer takes far longer, and no
	// choice can be made while the lock is held.
	p.mu.Lock()
	n := p.picks.next
	if p.picks.full {
		n = MaxPicks
	}
	recent := make([]Pick, 0, n)
	for i := range n {
		recent = append(recent, p.picks.ring[(p.picks.next-1-i+MaxPicks)%MaxPicks])
	}
	p.mu.Unlock()

	list := make([]PickStatus, 0, n)
	for i := range recent {
		if k := &recent[i]; !k.At.IsZero() { // a record that was filled in
			list = append(list, k.status(p.name))
		}
	}
	return list
}

func (k *Pick) status(pool string) PickStatus {
	st := PickStatus{
		Pool: pool, At: k.At, Strategy: k.Strategy,
		Model: shortName(k.Model), InputTokens: k.InputTokens, ExpectedOutput: k.ExpectedOutput, Attempt: k.Attempt,
		Decision: k.Decision.Reason.String(), Matched: k.Decision.Matched, Best: k.Decision.Best,
		Warm: k.Decision.Warm, Left: k.Decision.Left, Predicted: k.Decision.Predicted.Milliseconds(),
		Of: k.Of, Candidates: make([]CandidateStatus, 0, k.Kept),
	}
	for _, s := range k.Scorers {
		st.Scorers = append(st.Scorers, ScorerStatus{Name: s.Name, Weight: s.Weight})
	}
	for i := range k.Candidates[:k.Kept] {
		st.Candidates = append(st.Candidates, k.Candidates[i].status(k))
	}
	if k.Kept > 0 {
		st.Endpoint = k.Candidates[0].Name
	}
	return st
}

func (c *Candidate) status(k *Pick) CandidateStatus {
	uncached := max(min(1, k.InputTokens), k.InputTokens-c.Matched)
	st := CandidateStatus{
		Endpoint: c.Name, Barred: c.Barred, Warm: c.Warm, Home: c.Home, Blind: c.Blind,
		Matched: c.Matched, Uncached: uncached, Effort: Work{Uncached: uncached, Cached: c.Matched}.Effort(),
		Waiting: c.Waiting, Running: c.Running, PrefillTokens: c.PrefillTokens, Context: c.Context, Beginning: c.Beginning,
		KVUsage: known(c.KVUsage), Own: c.Own,
		Speed: predicted(c.Speed), Floor: predicted(c.Floor * 1000), LoadDelay: c.Delay * 1000,
		Predicted: predicted(c.Predicted * 1000), ErrorRate: c.ErrorRate,
	}
	if c.RecentTTFT >= 0 {
		st.RecentTTFT = known(c.RecentTTFT * 1000)
	}
	switch {
	case c.Predicted <= 0: // it was not compared with the others
		if c.Barred == "" && c.Blind {
			st.Barred = fairShare
		}
	case len(k.Scorers) > 0:
		st.Score = finite(1 - c.Cost)
		st.Parts = make(map[string]float64, c.Scores)
		for i := range min(c.Scores, len(k.Scorers)) {
			st.Parts[k.Scorers[i].Name] = c.Parts[i]
		}
	case !k.Delegated && !strings.HasPrefix(k.Strategy, "prefix"):
		st.Cost, st.Wait = finite(c.Cost*1000), finite(max(0, c.Wait)*1000)
	}
	return st
}

// fairShare says of a blind endpoint that it has as many calls as it may have
// until there are numbers.
const fairShare = "no numbers, and has its share"

// predicted is a number that is never 0 where it was worked out.
func predicted(x float64) *float64 {
	if x <= 0 {
		return nil
	}
	return finite(x)
}

// finite leaves out what JSON cannot say.
func finite(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// shortName cuts a name that is too long to be one, between two characters.
func shortName(s string) string {
	if len(s) <= maxModelName {
		return s
	}
	n := maxModelName
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
