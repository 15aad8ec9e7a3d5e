package simulator

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"
)

// Each fault is read as docs/rehearsing.md writes it.
func TestParseFault(t *testing.T) {
	for text, want := range map[string]fault{
		"refuse":                      {kind: faultRefuse},
		" reset ":                     {kind: faultReset},
		"silence":                     {kind: faultSilence},
		"headers_silence":             {kind: faultHeadersSilence},
		"slow_first_token 1m":         {kind: faultSlowFirstToken, wait: time.Minute},
		"status 503":                  {kind: faultStatus, code: 503},
		"status 429 retry_after 2":    {kind: faultStatus, code: 429, retryAfter: "2"},
		"status 503 retry_after a  b": {kind: faultStatus, code: 503, retryAfter: "a b"},
		"loading":                     {kind: faultLoading},
		"loading 30s":                 {kind: faultLoading, wait: 30 * time.Second},
		"error_first":                 {kind: faultErrorFirst, code: 503},
		"error_first 500 GPU is off":  {kind: faultErrorFirst, code: 500, message: "GPU is off"},
		"error_after 3":               {kind: faultErrorAfter, after: 3, code: 500},
		"error_after 0 503":           {kind: faultErrorAfter, code: 503},
		"cut_after 0":                 {kind: faultCutAfter},
		"stall_after 20":              {kind: faultStallAfter, after: 20},
		"malformed_after 1":           {kind: faultMalformedAfter, after: 1},
		"no_done":                     {kind: faultNoDone},
		"no_end":                      {kind: faultNoEnd},
		"close_after_reply":           {kind: faultCloseAfterReply},
		"close_after_reply reused":    {kind: faultCloseAfterReply, reused: true},
		"trickle 5ms":                 {kind: faultTrickle, wait: 5 * time.Millisecond},
	} {
		if got, err := parseFault(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	if names := strings.Split(faultNames, ", "); len(names) != len(faultForms) {
		t.Errorf("%d faults are listed, %d are known", len(names), len(faultForms))
	}
}

// Whoever misspells a fault is told how it is written.
func TestParseFaultErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "a fault is empty; have refuse, reset, silence",
		"explode":                  `unknown fault "explode"; have refuse, reset`,
		"refuse now":               `reading fault "refuse now": argument "now" is one too many; write refuse`,
		"cut_after":                "the number of tokens is missing; write cut_after <tokens>",
		"cut_after x":              `"x" is no number of tokens from 0 to 1000000`,
		"cut_after -1":             `"-1" is no number`,
		"stall_after 1 2":          `argument "2" is one too many`,
		"slow_first_token":         "the duration is missing; write slow_first_token <duration>",
		"slow_first_token 5":       `"5" is no duration above 0 and up to 24h0m0s, such as 500ms`,
		"trickle -1s":              `"-1s" is no duration`,
		"trickle 2d":               `"2d" is no duration`,
		"loading soon":             `"soon" is no duration`,
		"status":                   "the status is missing; write status <400 to 599> [retry_after <seconds|text>]",
		"status 200":               `"200" is no status from 400 to 599`,
		"status 503 after 2":       `argument "after" is one too many`,
		"status 503 retry_after":   "what retry_after says is missing",
		"status 503 retry_after é": "printable ASCII only",
		"error_first busy":         `"busy" is no status`,
		"error_after 2 x":          `"x" is no status`,
		"close_after_reply later":  `argument "later"`,
		"error_first 500 " + strings.Repeat("x", maxFaultText): "at most 1024 are allowed",
	} {
		if _, err := parseFault(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

// hits runs requests past a rule and tells which ones it took.
func hits(t *testing.T, f Fault, requests int) []int {
	t.Helper()
	rules, err := newRules([]Fault{f}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var taken []int
	for i := range requests {
		if rules[0].takes(time.Now(), "") {
			taken = append(taken, i+1)
		}
	}
	return taken
}

// Shares are exact and evenly spread, so that a rehearsal repeats.
func TestConditions(t *testing.T) {
	for _, tc := range []struct {
		f    Fault
		want []int
	}{
		{Fault{Fault: "reset"}, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}},
		{Fault{Fault: "reset", Rate: 0.25}, []int{4, 8}},
		{Fault{Fault: "reset", Rate: 0.3}, []int{4, 7, 10}},
		{Fault{Fault: "reset", Rate: 0.75}, []int{2, 3, 4, 6, 7, 8, 10}},
		{Fault{Fault: "reset", Every: 3}, []int{3, 6, 9}},
		{Fault{Fault: "reset", First: 2}, []int{1, 2}},
		{Fault{Fault: "reset", First: 7, Every: 3}, []int{3, 6}},
	} {
		if got := hits(t, tc.f, 10); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%+v: took %v, want %v", tc.f, got, tc.want)
		}
	}
	for _, rate := range []float64{0.1, 0.29, 0.57, 0.9, 1} {
		if got := len(hits(t, Fault{Fault: "reset", Rate: rate}, 100)); got != int(rate*100+0.5) {
			t.Errorf("rate %v took %d of 100", rate, got)
		}
	}
}

// A server loads for its time, and no request shortens or prolongs that.
func TestLoadingEnds(t *testing.T) {
	set := time.Now()
	rules, err := newRules([]Fault{{Fault: "loading 30s"}}, set)
	if err != nil {
		t.Fatal(err)
	}
	if r := rules[0]; !r.takes(set.Add(29*time.Second), "") || r.takes(set.Add(30*time.Second), "") {
		t.Error("the server did not load for exactly 30s")
	}
}

func TestConditionErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{"fault": "reset", "rate": 0}`:                                    "rate is 0; must be above 0",
		`{"fault": "reset", "rate": 1.5}`:                                  "rate is 1.5; must be above 0 and at most 1",
		`{"fault": "reset", "rate": -1}`:                                   "rate is -1",
		`{"fault": "reset", "every": 0}`:                                   "every is 0; must be at least 1",
		`{"fault": "reset", "first": -2}`:                                  "first is -2; must be at least 1",
		`{"fault": "reset", "every": 2, "rate": 0.5}`:                      "give one",
		`{"fault": "reset", "often": 2}`:                                   `unknown field "often"`,
		`{"fault": "loading", "first": 1}`:                                 "it takes no rate, every, first or match",
		`{"fault": "cut_after 1", "everything": true}`:                     "everything is for refuse, reset, silence and loading",
		`{"fault": "silence", "everything": true, "every": 2}`:             "goes without rate, every, first and match",
		`{"fault": "reset", "match": "` + strings.Repeat("x", 2000) + `"}`: "match has 2000 bytes; at most 1024",
		`{}`:   "a fault is empty",
		`null`: "a fault is empty",
		`7`:    "reading a fault",
	} {
		var f Fault
		err := json.Unmarshal([]byte(text), &f)
		if err == nil {
			_, err = newRules([]Fault{f}, time.Now())
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
	if _, err := newRules([]Fault{{Fault: "reset"}, {Fault: "reset"}}, time.Now()); err == nil || !strings.Contains(err.Error(), "given twice") {
		t.Errorf("twins: %v", err)
	}
	if _, err := newRules(make([]Fault, maxFaults+1), time.Now()); err == nil || !strings.Contains(err.Error(), "at most 32") {
		t.Errorf("too many: %v", err)
	}
}

// Of several faults the first that takes a request counts, and the others are
// not asked: two with "first" happen one after the other.
func TestFaultsInOrder(t *testing.T) {
	s := new(server)
	rules, err := newRules([]Fault{
		{Fault: "status 500", First: 2},
		{Fault: "status 501", Match: "needle"},
		{Fault: "status 502", First: 1},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, text := range []string{"", "needle", "a needle", "hay", "hay"} {
		f, err := s.choose(rules, httptest.NewRequest(http.MethodPost, "/", nil), text)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.code)
	}
	if want := []int{500, 500, 501, 502, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
