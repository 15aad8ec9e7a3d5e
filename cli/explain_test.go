package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var noon = time.Date(2026, 11, 1, 12, 0, 3, 120_000_000, time.UTC)

// candidate is a server that could be taken.
func candidate(name string, matched int, waiting, running, ahead float64) llmlb.CandidateStatus {
	return reckoned(llmlb.CandidateStatus{
		Endpoint: name, Matched: matched, Uncached: 2300 - matched,
		Waiting: waiting, Running: running, PrefillTokens: ahead, Beginning: math.Ceil(ahead / 3000), Context: 2000 * running, KVUsage: new(0.44),
		Speed: new(5000.0), Floor: new(50.0), RecentTTFT: new(180.0),
	})
}

// reckoned fills in what follows from the candidate's numbers, by the formula of
// docs/selection.md, for an answer of 128 tokens.
func reckoned(c llmlb.CandidateStatus) llmlb.CandidateStatus {
	c.Effort = llmlb.Work{Uncached: c.Uncached, Cached: c.Matched}.Effort()
	own, before := 1000*float64(c.Effort) / *c.Speed, 1000*c.PrefillTokens / *c.Speed
	burden := (0.1*c.Beginning+5e-6*c.Running*own)*own + 1e-3*(c.Context+6000*c.Running)
	predicted := *c.Floor + before + own + 10*c.Waiting + c.LoadDelay
	c.Predicted = &predicted
	c.Wait, c.Cost = new(predicted-*c.Floor-own+burden), new(predicted+own/2+burden)
	return c
}

// barred is a server that could not be.
func barred(name, why string, matched int) llmlb.CandidateStatus {
	return llmlb.CandidateStatus{Endpoint: name, Barred: why, Matched: matched, Uncached: 2300 - matched, RecentTTFT: new(910.0)}
}

func pick(decision string, matched, best, warm int, candidates ...llmlb.CandidateStatus) llmlb.PickStatus {
	return llmlb.PickStatus{
		Pool: "default", At: noon, Strategy: "work", Model: "llama-3.1-8b", InputTokens: 2300, ExpectedOutput: 128,
		Attempt: 1, Endpoint: candidates[0].Endpoint, Decision: decision,
		Matched: matched, Best: best, Warm: warm, Candidates: candidates, Of: len(candidates),
	}
}

func warmPick() llmlb.PickStatus {
	taken := candidate("gpu-2", 2048, 0, 9, 0)
	taken.Warm, taken.Home = true, true
	full, drained := candidate("gpu-1", 0, 0.4, 16, 3000), barred("gpu-3", "draining", 0)
	full.KVUsage, drained.KVUsage = new(0.88), new(0.03)
	return pick("warm", 2048, 2048, 1, taken, full, drained)
}

// spill has left the second candidate for the first.
func spill(decision string, candidates ...llmlb.CandidateStatus) llmlb.PickStatus {
	k := pick(decision, candidates[0].Matched, 2048, 1, candidates...)
	k.Left = "gpu-1"
	return k
}

// scored gives the candidate the opinions of two scorers, by their formulas.
func scored(c llmlb.CandidateStatus, weights []llmlb.ScorerStatus) llmlb.CandidateStatus {
	c.Parts = map[string]float64{
		"queue":  1 / (1 + (c.Waiting+c.Running/8)/4),
		"prefix": float64(c.Matched) / 2300,
	}
	sum, weight := 0.0, 0.0
	for _, s := range weights {
		sum, weight = sum+s.Weight*c.Parts[s.Name], weight+s.Weight
	}
	c.Wait, c.Cost, c.Score = nil, nil, new(sum/weight)
	return c
}

// An operator reads from each block what was asked, what was decided, and how
// the servers stood.
func TestFormatPicks(t *testing.T) {
	held := candidate("gpu-1", 2048, 5, 16, 9000)
	held.Warm, held.RecentTTFT = true, new(910.0)
	cold := candidate("gpu-3", 0, 0, 2, 0)

	eight := []llmlb.CandidateStatus{cold}
	for i := range 7 {
		eight = append(eight, candidate(fmt.Sprintf("gpu-%d", 10+i), 0, float64(i), 8, float64(i*1000)))
	}
	eight[3].Blind, eight[3].KVUsage = true, nil
	eight[7] = barred("gpu-16", "draining", 2048)
	of1000 := pick("cold", 0, 2048, 0, eight...)
	of1000.Of, of1000.Pool, of1000.Attempt = 1000, "big", 2

	busy := candidate("gpu-1", 2048, 0, 6, 0)
	busy.Warm = true
	lost := spill("spill:load", cold) // the warm one was not kept
	lost.Of = 9
	unnamed := lost // by a Caddy that does not name it
	unnamed.Left = ""
	other := candidate("gpu-3", 1024, 0, 2, 0) // not warm, and yet not without
	spills := []llmlb.PickStatus{
		spill("spill:load", cold, held), spill("spill:waiting", cold, held), spill("spill:ttft", cold, held),
		spill("spill:explore", cold, busy), spill("spill:load", other, held), lost, unnamed,
	}

	plain := func(c llmlb.CandidateStatus) llmlb.CandidateStatus { c.Wait, c.Cost = nil, nil; return c }
	prefixSpill := spill("spill:ttft", plain(cold), plain(held))
	prefixSpill.Strategy = "prefix_spill"

	weights := []llmlb.ScorerStatus{{Name: "queue", Weight: 0.35}, {Name: "prefix", Weight: 1}}
	weighted := pick("warm", 2048, 2048, 2, scored(held, weights), scored(cold, weights), barred("gpu-4", "down", 0))
	weighted.Strategy, weighted.Scorers = "weighted", weights
	weights = []llmlb.ScorerStatus{{Name: "queue", Weight: 1}, {Name: "prefix", Weight: 0.35}}
	scoresLower := spill("spill:load", scored(cold, weights), scored(held, weights))
	scoresLower.Strategy, scoresLower.Scorers = "weighted", weights
	alone := pick("only", 0, 0, 0, scored(cold, weights))
	alone.Strategy, alone.Scorers = "weighted", weights

	waived := candidate("gpu-1", 0, 0, 2, 0)
	waived.Barred = "over kv_limit"
	loads := candidate("gpu-2", 0, 0, 2, 0)
	loads.LoadDelay = 500
	loads = reckoned(loads)
	slow := candidate("gpu-1", 0, 0, 0, 0)
	slow.Speed, slow.Home = new(2000.0), true
	slow = reckoned(slow)
	delegated := pick("policy", 0, 0, 0, plain(cold), plain(loads))
	delegated.Strategy = "round_robin"
	hostile := pick("on:\x1b[2Jme", 0, 0, 0, candidate("gpu-\r1", 0, 0, 0, 0))
	hostile.Model = strings.Repeat("m", 200) + "\x1b"

	for _, tc := range []struct {
		name  string
		picks []llmlb.PickStatus
	}{
		{"as_documented", []llmlb.PickStatus{warmPick()}},
		{"eight_of_a_thousand", []llmlb.PickStatus{of1000}},
		{"spills", spills},
		{"prefix_spill", []llmlb.PickStatus{prefixSpill}},
		{"weighted", []llmlb.PickStatus{weighted, scoresLower, alone}},
		{"cold_only_and_policy", []llmlb.PickStatus{
			pick("cold", 0, 0, 0, cold, loads),
			pick("cold", 0, 0, 0, slow, cold), // at its home, where it need not wait
			pick("cold", 100, 200, 0, candidate("gpu-3", 100, 0, 0, 0), candidate("gpu-1", 200, 0, 9, 0)),
			pick("only", 0, 0, 0, waived),
			delegated,
		}},
		{"hostile_names", []llmlb.PickStatus{hostile}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var b strings.Builder
			if err := FormatPicks(&b, tc.picks, time.UTC); err != nil {
				t.Fatal(err)
			}
			golden(t, "explain_"+tc.name+".txt", b.String())
		})
	}
}

// explained answers like GET /llmlb/explain, and notes what was asked.
func explained(t *testing.T, status int, body string) (*explanation, *string) {
	t.Helper()
	var asked string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(srv.Close)
	address := srv.Listener.Addr().String()
	return &explanation{
		fetch: func(ctx context.Context, path string) ([]byte, error) { return fetch(ctx, address, path) },
		limit: 5, zone: time.UTC,
	}, &asked
}

// The command asks for what its flags say and prints what the admin API answers.
func TestExplainAsksForWhatItsFlagsSay(t *testing.T) {
	body, err := json.Marshal([]llmlb.PickStatus{warmPick()})
	if err != nil {
		t.Fatal(err)
	}
	e, asked := explained(t, 200, string(body))
	e.pool, e.endpoint, e.limit = "default", "[::1]:80", 64
	var b strings.Builder
	if err := e.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if want := "/llmlb/explain?endpoint=%5B%3A%3A1%5D%3A80&limit=64&pool=default"; *asked != want {
		t.Errorf("asked for %s, want %s", *asked, want)
	}
	golden(t, "explain_as_documented.txt", b.String())
}

// Scripts get everything the admin API said, fields of a newer Caddy included.
func TestExplainJSONKeepsUnknownFields(t *testing.T) {
	e, _ := explained(t, 200, `[{"pool":"a","queue":7}]`+"\n")
	e.asJSON = true
	var b strings.Builder
	if err := e.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if want := "[\n  {\n    \"pool\": \"a\",\n    \"queue\": 7\n  }\n]\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}

// A pool that a reload has made knows no choice, whatever other pools knew.
func TestExplainOfANewPool(t *testing.T) {
	e, _ := explained(t, 200, "[]")
	e.pool = "chat"
	var b strings.Builder
	if err := e.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if want := "nothing was chosen yet: no prompt has come to pool chat\n"; b.String() != want {
		t.Errorf("printed %q, want %q", b.String(), want)
	}
}

// Where there is nothing to explain, it says why; an error says what to do.
func TestExplainWithoutChoices(t *testing.T) {
	for _, tc := range []struct {
		name           string
		status         int
		body, endpoint string
		limit          int
		want, wantErr  string
	}{
		{"none yet", 200, "[]", "", 5, "nothing was chosen yet", ""},
		{"none there", 200, "[]", "gpu-9", 5, "none of the last choices fell on gpu-9", ""},
		{"not JSON", 200, "<html>", "", 5, "", "reading the admin API's answer"},
		{"unknown pool", 404, `{"error":"there is no pool \"chat\"; have default"}`, "", 5, "", `there is no pool "chat"; have default`},
		{"older module", 404, `{"error":"no such resource; have /llmlb/pools"}`, "", 5, "", "has no /llmlb/explain: it runs an older version"},
		{"without the module", 404, "", "", 5, "", "built without this module"},
		{"refused", 400, `{"error":"parameter \"pool\" is empty"}`, "", 5, "", `parameter "pool" is empty`},
		{"origin", 403, `{"error":"host not allowed"}`, "", 5, "", "HTTP 403"},
		{"limit 0", 200, "[]", "", 0, "", "have 1 to 64"},
		{"limit 65", 200, "[]", "", 65, "", "have 1 to 64"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			e, _ := explained(t, tc.status, tc.body)
			e.endpoint, e.limit = tc.endpoint, tc.limit
			var b strings.Builder
			err := e.show(t.Context(), &b)
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) || b.Len() > 0 {
					t.Errorf("printed %q, error %v; want an error with %q", b.String(), err, tc.wantErr)
				}
				return
			}
			if err != nil || !strings.HasPrefix(b.String(), tc.want) {
				t.Errorf("printed %q, error %v; want %q", b.String(), err, tc.want)
			}
		})
	}
}
