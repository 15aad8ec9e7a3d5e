package integration

import (
	"regexp"
	"testing"
	"time"
)

// A slow network is no failure: everybody gets every byte, and nothing is asked
// twice.
func TestLatencyDelaysAndChangesNothing(t *testing.T) {
	need(t)
	r := startRig(t, quick, "")
	r.toxic.add(t, `{"type": "latency", "attributes": {"latency": 300, "jitter": 100}}`)

	c := r.ask(t, 12, 20, 1)
	got, err := converse(t.Context(), r.gateway, chat{"chat", "Repeat what is said.", question(100, 20), 100})
	if err != nil || got.text != question(100, 20) {
		t.Errorf("OpenAI's own client got %q, %v, want the question", got.text, err)
	}
	sum := c.wait(t)
	if sum.cutA+sum.cutB+sum.retried > 0 {
		t.Errorf("%d answers are cut and %d were asked again, want none", sum.cutA+sum.cutB, sum.retried)
	}
	if sum.byA == 0 || sum.byB == 0 {
		t.Errorf("A served %d and B served %d, want some from both", sum.byA, sum.byB)
	}
	direct := map[string]simulator{"sim-a": r.a, "sim-b": r.b}
	for i, a := range c.answers {
		s, known := direct[a.from()]
		if !known || i >= 4 { // four are enough to compare
			continue
		}
		want := listen(t.Context(), s.address(), a.question, nil)
		if have, want := unnamed(a.raw), unnamed(want.raw); have != want {
			t.Errorf("through the gateway, %s wrote\n%s\nwithout it\n%s", s.name, have, want)
		}
	}
	r.settled(t)
}

// naming is what differs between two answers to the same question.
var naming = regexp.MustCompile(`"id":"[^"]*"|"created":\d+`)

func unnamed(raw []byte) string { return naming.ReplaceAllString(string(raw), "") }

// Whatever happens before the first token happens behind the client's back: the
// other server answers, whole.
//
// No metrics are read here: scrapes take the same way, and would soon have taken
// out the server that is to fail.
func TestFailureBeforeTheFirstTokenIsServedByTheOther(t *testing.T) {
	need(t)
	cases := []struct{ name, toxic string }{
		{"cut in the header", `{"type": "limit_data", "attributes": {"bytes": 60}}`},
		{"cut in the first event", `{"type": "limit_data", "attributes": {"bytes": 300}}`},
		{"reset when asked", `{"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 0}}`},
		{"reset some time after it was asked", `{"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 200}}`},
		{"reset when it answers", `{"type": "reset_peer", "attributes": {"timeout": 0}}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := startRig(t, quick, "engine none")
			r.toxic.add(t, c.toxic)
			r.ask(t, 8, 10, 1).rescued(t)
			r.settled(t)
		})
	}
}

// Many requests that were rescued at once use up nothing that the next ones
// need: there is a healthy server still.
func TestRescuesLeaveRoomForTheNext(t *testing.T) {
	need(t)
	// Taking turns, with no circuit, a failing server is asked again and again.
	r := startRig(t, quick, "engine none\nstrategy round_robin\ncircuit off")
	r.toxic.add(t, `{"type": "reset_peer", "stream": "upstream", "attributes": {"timeout": 500}}`)
	r.ask(t, 100, 5, 1).rescued(t)
	r.ask(t, 8, 5, 1).rescued(t)
	r.settled(t)
}

// A server that says nothing, or nothing after its header, is left when the time
// for a first token is over, and no later.
func TestSilenceBeforeTheFirstTokenIsServedByTheOther(t *testing.T) {
	need(t)
	const least, most = 500 * time.Millisecond, 3 * time.Second
	cases := []struct {
		name   string
		toxics []string
	}{
		{"silence", []string{`{"type": "timeout", "attributes": {"timeout": 0}}`}},
		{"a header, then silence", []string{
			`{"type": "limit_data", "attributes": {"bytes": 300}}`,
			`{"type": "slow_close", "attributes": {"delay": 30000}}`, // of what limit_data would close
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := startRig(t, quick, "engine none\nfirst_token 500ms 3s")
			r.toxic.add(t, c.toxics...)
			crowd := r.ask(t, 8, 10, 1)
			crowd.rescued(t)
			for i, a := range crowd.answers {
				if took := a.first.Sub(a.sent); a.retried() && (took < least || took > most+noise) {
					t.Errorf("answer %d began after %v, want the other to be asked after %v to %v", i, took, least, most)
				}
			}
			r.settled(t)
		})
	}
}

// noise is how much later than its time something may happen on a machine that
// does a lot else, the answer of a healthy server included.
const noise = 2 * time.Second

// What breaks after the first token cannot be mended: the client sees it break,
// and nothing of another answer.
func TestFailureAfterTheFirstTokenEndsTheStream(t *testing.T) {
	need(t)
	cases := []struct {
		name          string
		before, later []string // toxics from the start on, and when tokens have come
	}{
		{
			name:   "cut",
			before: []string{`{"type": "limit_data", "attributes": {"bytes": 2000}}`},
		},
		{
			// A reset_peer that comes too late for a connection only closes
			// it. One without effect that was there before makes it a reset.
			name:   "reset",
			before: []string{`{"name": "prepare", "type": "reset_peer", "toxicity": 0, "attributes": {"timeout": 0}}`},
			later:  []string{`{"name": "reset", "type": "reset_peer", "attributes": {"timeout": 0}}`},
		},
		{
			name:  "closed",
			later: []string{`{"type": "limit_data", "attributes": {"bytes": 0}}`},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := startRig(t, quick, "engine none")
			r.toxic.add(t, c.before...)
			crowd := r.ask(t, 8, 30, 3)
			crowd.await(t, 8)
			r.toxic.add(t, c.later...)
			crowd.severed(t)
			r.settled(t)
		})
	}
}

// A stream that stands still ends as an error when stall_timeout is over. Nobody
// waits for the rest until a client gives up.
func TestSilenceAfterTheFirstTokenEndsTheStream(t *testing.T) {
	need(t)
	const stall = time.Second
	r := startRig(t, quick, "engine none\nstall_timeout 1s")
	c := r.ask(t, 8, 40, 3)
	c.await(t, 8)
	r.toxic.add(t, `{"type": "timeout", "attributes": {"timeout": 0}}`)
	c.severed(t)
	for i, a := range c.answers {
		if still := a.ended.Sub(a.last); !a.whole() && (still < stall-100*time.Millisecond || still > stall+noise) {
			t.Errorf("answer %d ended %v after its last token, want %v", i, still, stall)
		}
	}
	r.settled(t)
}
