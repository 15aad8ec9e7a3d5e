package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var noon = time.Date(2026, 11, 1, 12, 0, 3, 120_000_000, time.UTC)

// candidate is a server that could be taken.
func candidate(name string, matched, uncached int, waiting, running, ahead, predicted float64) llmlb.CandidateStatus {
	return llmlb.CandidateStatus{
		Endpoint: name, Matched: matched, Uncached: uncached,
		Waiting: waiting, Running: running, PrefillTokens: ahead, KVUsage: new(0.44),
		Speed: new(5000.0), Floor: new(50.0), RecentTTFT: new(180.0),
		Predicted: &predicted, Cost: new(predicted * 1.05),
	}
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
	taken := candidate("gpu-2", 2048, 252, 0, 9, 0, 100)
	taken.Warm, taken.Home = true, true
	return pick("warm", 2048, 2048, 1, taken, candidate("gpu-1", 0, 2300, 0.4, 16, 3000, 1120))
}

// An operator reads from each block what was asked, what was decided, and how
// the servers stood.
func TestFormatPicks(t *testing.T) {
	held := candidate("gpu-1", 2048, 252, 5, 16, 9000, 2100)
	held.Warm, held.RecentTTFT = true, new(910.0)
	cold := candidate("gpu-3", 0, 2300, 0, 2, 0, 510)

	eight := []llmlb.CandidateStatus{cold}
	for i := range 7 {
		eight = append(eight, candidate(fmt.Sprintf("gpu-%d", 10+i), 0, 2300, float64(i), 8, float64(i*1000), 510+float64(i*200)))
	}
	eight[3].Blind, eight[3].KVUsage = true, nil
	eight[7] = barred("gpu-16", "draining", 2048)
	of1000 := pick("cold", 0, 2048, 0, eight...)
	of1000.Of, of1000.Pool, of1000.Attempt = 1000, "big", 2

	spills := []llmlb.PickStatus{
		pick("spill:load", 0, 2048, 1, cold, held),
		pick("spill:waiting", 0, 2048, 1, cold, held),
		pick("spill:ttft", 0, 2048, 1, cold, held),
	}
	lost := pick("spill:load", 0, 2048, 1, cold) // the warm one was not kept
	lost.Of = 9
	spills = append(spills, lost)

	plain := func(c llmlb.CandidateStatus) llmlb.CandidateStatus { c.Cost = nil; return c }
	prefixSpill := pick("spill:ttft", 0, 2048, 1, plain(cold), plain(held))
	prefixSpill.Strategy = "prefix_spill"

	scored := func(c llmlb.CandidateStatus, score, queue, prefix float64) llmlb.CandidateStatus {
		c.Cost, c.Score, c.Parts = nil, &score, map[string]float64{"queue": queue, "prefix": prefix}
		return c
	}
	weighted := pick("warm", 2048, 2048, 2, scored(held, 0.81, 0.625, 1), scored(cold, 0.5, 1, 0), barred("gpu-4", "down", 0))
	weighted.Strategy = "weighted"
	weighted.Scorers = []llmlb.ScorerStatus{{Name: "queue", Weight: 0.35}, {Name: "prefix", Weight: 1}}
	scoresLower := pick("spill:load", 0, 2048, 1, scored(cold, 0.9, 1, 0.5), scored(held, 0.5, 0, 1))
	scoresLower.Scorers = weighted.Scorers

	waived := candidate("gpu-1", 0, 2300, 0, 2, 0, 510)
	waived.Barred = "over kv_limit"
	loads := candidate("gpu-2", 0, 2300, 0, 2, 0, 1510)
	loads.LoadDelay = 1000
	delegated := pick("policy", 0, 0, 0, plain(cold), plain(loads))
	delegated.Strategy = "round_robin"
	hostile := pick("on:\x1b[2Jme", 0, 0, 0, candidate("gpu-\r1", 0, 1, 0, 0, 0, 51))
	hostile.Model = strings.Repeat("m", 200) + "\x1b"

	for _, tc := range []struct {
		name  string
		picks []llmlb.PickStatus
	}{
		{"two_candidates", []llmlb.PickStatus{warmPick()}},
		{"eight_of_a_thousand", []llmlb.PickStatus{of1000}},
		{"spills", spills},
		{"prefix_spill", []llmlb.PickStatus{prefixSpill}},
		{"weighted", []llmlb.PickStatus{weighted, scoresLower}},
		{"cold_only_and_policy", []llmlb.PickStatus{
			pick("cold", 0, 0, 0, cold, loads),
			pick("cold", 100, 200, 0, candidate("gpu-3", 100, 2200, 0, 0, 0, 490), candidate("gpu-1", 200, 2100, 0, 9, 0, 560)),
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
	golden(t, "explain_two_candidates.txt", b.String())
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
