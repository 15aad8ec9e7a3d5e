package llmlb

import (
	"fmt"
	"testing"
	"time"
)

// answer is one whole answer, as the engine told its usage.
type answer struct {
	model, tenant  string
	bytes, prompt  int // of the prompt: bytes and tokens
	ids            int
	output, events int
	ceiling        int // the client's
	opaque         bool
	encodes        bool
	ratio          float64 // of a sample of the prompt
	estimated      int     // of the prompt, in tokens
	expected       int     // of the answer
	outcome        Outcome // Served when not said
}

func teach(p *Pool, s *Settings, now time.Time, a answer) {
	c := NewCall(p, s, now)
	c.Model, c.Tenant, c.PromptBytes, c.TokenIDs, c.Opaque = a.model, a.tenant, a.bytes, a.ids, a.opaque
	c.InputTokens, c.MaxOutputTokens = max(1, a.estimated), a.ceiling
	c.Ratio, c.Encodes, c.expected = a.ratio, a.encodes, a.expected
	if a.prompt > 0 {
		c.PromptTokens = a.prompt
	}
	if a.output > 0 {
		c.OutputTokens = a.output
	}
	c.TokenEvents = a.events
	if a.outcome == OutcomeNone {
		a.outcome = Served
	}
	c.Lease = take(p, s.Members[0].Endpoint, now)
	c.EndAttempt(now, a.outcome)
}

func taught(t *testing.T, n int, answers ...answer) (*Pool, *Settings) {
	t.Helper()
	p := NewPool("usage")
	s := bound(t, p, Member{Address: "a:1"})
	p.Start(s, t0)
	for range n {
		for _, a := range answers {
			teach(p, s, t0, a)
		}
	}
	return p, s
}

// The length of a prompt is estimated by what prompts for its model have turned
// out to be: ideograms make several times as many tokens of a byte as English.
func TestPromptLengthIsCalibrated(t *testing.T) {
	english := answer{model: "m", bytes: 4400, prompt: 1000}
	chinese := answer{model: "cjk", bytes: 3100, prompt: 1000}
	for _, tc := range []struct {
		name    string
		n       int
		answers []answer
		ask     Features
		want    int
	}{
		{"nothing known", 0, nil, Features{Model: "m", PromptBytes: 4000}, 1000},
		{"two answers are not believed", 2, []answer{chinese}, Features{Model: "cjk", PromptBytes: 4000}, 1000},
		{"English", 3, []answer{english}, Features{Model: "m", PromptBytes: 4400}, 1000},
		{"Chinese", 3, []answer{chinese}, Features{Model: "cjk", PromptBytes: 3100}, 1000},
		{"each model by itself", 5, []answer{english, chinese}, Features{Model: "cjk", PromptBytes: 6200}, 2000},
		{"another model", 5, []answer{chinese}, Features{Model: "other", PromptBytes: 4000}, 1000},
		{"long prompts count more", 3, []answer{{model: "m", bytes: 300, prompt: 300}, {model: "m", bytes: 60_000, prompt: 15_000}}, Features{Model: "m", PromptBytes: 3804}, 1000},
		{"a short prompt says nothing", 9, []answer{{model: "m", bytes: 40, prompt: 40}}, Features{Model: "m", PromptBytes: 4000}, 1000},
		{"token ids say nothing of text", 9, []answer{{model: "m", bytes: 4000, prompt: 4000, ids: 500}}, Features{Model: "m", PromptBytes: 4000}, 1000},
		{"what was not understood neither", 9, []answer{{model: "m", bytes: 4000, prompt: 4000, opaque: true}}, Features{Model: "m", PromptBytes: 4000}, 1000},
		{"nor what failed", 9, []answer{{model: "m", bytes: 4000, prompt: 4000, outcome: EngineError}}, Features{Model: "m", PromptBytes: 4000}, 1000},
		{"absurdly few bytes", 9, []answer{{model: "m", bytes: 4000, prompt: 1 << 30}}, Features{Model: "m", PromptBytes: 4000}, 4000},
		{"absurdly many bytes", 9, []answer{{model: "m", bytes: 4_000_000, prompt: 1}}, Features{Model: "m", PromptBytes: 12_000}, 1000},
		{"token ids stay counted", 5, []answer{chinese}, Features{Model: "cjk", PromptBytes: 4000, TokenIDs: 1000, InputTokens: 1000}, 1000},
		{"token ids and text", 5, []answer{chinese}, Features{Model: "cjk", PromptBytes: 4000 + 3100, TokenIDs: 1000}, 2000},
		{"opaque stays a guess", 5, []answer{chinese}, Features{Model: "cjk", PromptBytes: 4000, Opaque: true, InputTokens: 7}, 7},
		{"no prompt", 5, []answer{chinese}, Features{Model: "cjk"}, 0},
		{"one byte", 5, []answer{chinese}, Features{Model: "cjk", PromptBytes: 1}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := taught(t, tc.n, tc.answers...)
			c := NewCall(p, s, t0)
			c.Features = tc.ask
			p.Calibrate(c)
			if c.InputTokens != tc.want {
				t.Errorf("%d tokens, want %d", c.InputTokens, tc.want)
			}
		})
	}
}

// How much a request will generate is what such requests have generated: of the
// same tenant if he is known, within what the client allows.
func TestExpectedOutput(t *testing.T) {
	long := answer{model: "m", tenant: "writer", output: 2000}
	short := answer{model: "m", tenant: "classifier", output: 4}
	for _, tc := range []struct {
		name          string
		n             int
		answers       []answer
		model, tenant string
		ceiling       int
		want          int
	}{
		{"nothing known, no ceiling", 0, nil, "m", "", 0, 256},
		{"nothing known, half the ceiling", 0, nil, "m", "", 1000, 500},
		{"nothing known, a huge ceiling", 0, nil, "m", "", 128_000, 1024},
		{"nothing known, one token", 0, nil, "m", "", 1, 1},
		{"two answers are not believed", 2, []answer{long}, "m", "writer", 0, 256},
		{"as before", 3, []answer{long}, "m", "writer", 0, 2000},
		{"within the ceiling", 3, []answer{long}, "m", "writer", 300, 300},
		{"below the ceiling", 3, []answer{short}, "m", "classifier", 4096, 4},
		{"each tenant by himself", 9, []answer{long, short}, "m", "classifier", 0, 4},
		{"a model of its own", 9, []answer{long}, "other", "writer", 0, 256},
		{"a new tenant is like everybody", 3, []answer{{model: "m", tenant: "a", output: 100}}, "m", "new", 0, 100},
		{"no tenants", 3, []answer{{model: "m", output: 100}}, "m", "", 0, 100},
		{"without usage events are counted", 3, []answer{{model: "m", events: 80}}, "m", "", 0, 80},
		{"usage is believed before events", 3, []answer{{model: "m", output: 160, events: 80}}, "m", "", 0, 160},
		{"an answer cut off is no length", 9, []answer{{model: "m", output: 3, outcome: Truncated}}, "m", "", 0, 256},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, s := taught(t, tc.n, tc.answers...)
			c := NewCall(p, s, t0)
			c.Model, c.Tenant, c.MaxOutputTokens = tc.model, tc.tenant, tc.ceiling
			if got := c.ExpectedOutput(); got != tc.want {
				t.Errorf("expects %d tokens, want %d", got, tc.want)
			}
		})
	}
}

// Traffic changes: a model that has begun to answer at length is known to within
// some dozens of answers.
func TestExpectedOutputFollowsTraffic(t *testing.T) {
	p, s := taught(t, 200, answer{model: "m", output: 10})
	for range 60 {
		teach(p, s, t0, answer{model: "m", output: 1000})
	}
	c := NewCall(p, s, t0)
	c.Model = "m"
	if got := c.ExpectedOutput(); got < 900 || got > 1000 {
		t.Errorf("expects %d tokens, want nearly 1000", got)
	}
}

// Clients write model names, and some engines take any: however many there are,
// memory is bounded, and what is in use is not pushed out by what was once.
func TestKindsOfTrafficAreBounded(t *testing.T) {
	p, s := taught(t, 0)
	for i := range 5 * maxUses {
		now := at(float64(i))
		teach(p, s, now, answer{model: "real", tenant: "known", bytes: 3100, prompt: 1000, output: 50})
		teach(p, s, now, answer{model: fmt.Sprint("made up ", i), tenant: fmt.Sprint("guest ", i), output: 5})
	}
	if got := len(p.uses); got > maxUses {
		t.Errorf("%d kinds of traffic kept, want at most %d", got, maxUses)
	}
	c := NewCall(p, s, t0)
	c.Model, c.Tenant, c.PromptBytes = "real", "known", 3100
	p.Calibrate(c)
	if c.InputTokens != 1000 || c.ExpectedOutput() != 50 {
		t.Errorf("the real model was forgotten: %d tokens in, %d out", c.InputTokens, c.ExpectedOutput())
	}
	if got := p.Status(t0).Models; len(got) != maxModelRows || got[0].Model != "real" {
		t.Errorf("%d models shown, first %q; want %d, the most used first", len(got), got[0].Model, maxModelRows)
	}
}

// The pool's JSON tells of each model what is known, null where nothing is, and
// nothing of tenants.
func TestModelsAreShown(t *testing.T) {
	p, _ := taught(t, 3,
		answer{model: "whole", tenant: "secret", bytes: 3100, prompt: 1000, output: 50},
		answer{model: "whole", bytes: 3100, prompt: 1000, output: 50},
		answer{model: "silent", output: 20})
	got := p.Status(t0).Models
	if len(got) != 2 || got[0].Model != "whole" || got[1].Model != "silent" {
		t.Fatalf("models %+v, want whole and silent", got)
	}
	within(t, "bytes per token", *got[0].BytesPerToken, 3.1, 0.001)
	within(t, "output tokens", *got[0].OutputTokens, 50, 0.001)
	if got[1].BytesPerToken != nil || *got[1].OutputTokens != 20 {
		t.Errorf("silent: %+v", got[1])
	}
}

// Where every answer ends at the client's ceiling, that is how long they are.
func TestAnswersAtTheirCeilingAreExpected(t *testing.T) {
	p, s := taught(t, 5, answer{model: "m", output: 8192, ceiling: 8192})
	c := NewCall(p, s, t0)
	c.Features = Features{Model: "m", PromptBytes: 4000, InputTokens: 1000, MaxOutputTokens: 8192}
	if got := c.ExpectedOutput(); got != 8192 {
		t.Errorf("%d tokens expected, want 8192", got)
	}
}

// The places of a whole pool are given away by how long answers are expected to
// be. One server that tells nonsense, or clients that want one token, must not
// decide that for everybody.
func TestOneAnswerDecidesNothing(t *testing.T) {
	usual := answer{model: "m", output: 800}
	for _, tc := range []struct {
		name      string
		then      []answer
		low, high int
	}{
		{"a trillion tokens", []answer{{model: "m", output: 1 << 40}}, 800, 1200},
		{"and again", []answer{{model: "m", output: 1 << 40}, {model: "m", output: 1 << 40}}, 800, 1800},
		{"at the client's ceiling of one", []answer{{model: "m", output: 1, ceiling: 1}}, 800, 800},
		{"over it", []answer{{model: "m", output: 5000, ceiling: 1}}, 800, 800},
	} {
		p, s := taught(t, 20, usual)
		for _, a := range tc.then {
			teach(p, s, t0, a)
		}
		c := NewCall(p, s, t0)
		c.Features = Features{Model: "m", PromptBytes: 4000, InputTokens: 1000}
		if got := c.ExpectedOutput(); got < tc.low || got > tc.high {
			t.Errorf("%s: %d tokens expected, want %d to %d", tc.name, got, tc.low, tc.high)
		}
	}
}
