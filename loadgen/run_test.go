package loadgen

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What a user feels: when the first token comes, how the others follow, when all
// is said.
func TestTimesOfAStream(t *testing.T) {
	r, _ := carry(t, Scenario{Clients: 1, Requests: 4}, func(_ *asked, w *reply) {
		w.stream(300*time.Millisecond, 20*time.Millisecond, 11)
	})
	g := r.Total
	if g.Offered != 4 || g.Outcomes[OK] != 4 || g.Output != 44 || g.ITL.Count != 40 {
		t.Fatalf("%+v", g)
	}
	within(t, "ttft", g.TTFT.P50, 300*time.Millisecond)
	within(t, "itl", g.ITL.P99, 20*time.Millisecond)
	within(t, "tpot", g.TPOT.P50, 20*time.Millisecond)
	within(t, "e2e", g.E2E.Max, 500*time.Millisecond)
	if r.Elapsed != 2 || g.OutputRate != 22 || g.RequestRate != 2 {
		t.Errorf("took %vs at %v tok/s and %v requests/s", r.Elapsed, g.OutputRate, g.RequestRate)
	}
}

// The engine knows better than its events how many tokens there were.
func TestUsageCounts(t *testing.T) {
	r, e := carry(t, Scenario{Clients: 1, Requests: 1, Model: "m", Class: Class{Output: Size{fixed, 9, 0}}}, func(_ *asked, w *reply) {
		w.token("several tokens at once")
		time.Sleep(time.Second)
		w.token("and again")
		w.event(`{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}`)
		w.event(`{"choices":[],"usage":{"prompt_tokens":77,"completion_tokens":9,"prompt_tokens_details":{"cached_tokens":64}}}`)
		w.event("[DONE]")
	})
	if g := r.Total; g.Output != 9 || g.Input != 77 || g.Cached != 64 || g.ITL.Count != 1 {
		t.Errorf("%+v", g)
	}
	within(t, "tpot", r.Total.TPOT.P50, time.Second/8)
	a := e.asked[0]
	if b := a.body; b.Model != "m" || !b.Stream || !b.Options.Usage || b.Tokens != 9 || len(b.Messages) != 1 || len(b.Messages[0].Content) != 512*4 {
		t.Errorf("asked %+v", b)
	}
	if got := a.header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("Authorization: %q", got)
	}
}

// A cut answer is never taken for a whole one, whatever the server's status.
func TestOutcomes(t *testing.T) {
	for _, tc := range []struct {
		name, outcome, said string
		answer              func(*asked, *reply)
	}{
		{"whole", OK, "", func(_ *asked, w *reply) { w.stream(time.Second, 0, 2) }},
		{"no finish_reason", Truncated, "without finish_reason", func(_ *asked, w *reply) {
			w.token("x")
			w.event("[DONE]")
		}},
		{"no [DONE]", Truncated, "[DONE]", func(_ *asked, w *reply) {
			w.token("x")
			w.event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
		}},
		{"nothing in it", Truncated, "", func(_ *asked, w *reply) { w.begin() }},
		{"reset in the middle", Truncated, "reset", func(_ *asked, w *reply) {
			w.token("x")
			w.cut = errReset{}
		}},
		{"reset after the end", OK, "", func(_ *asked, w *reply) {
			w.stream(0, 0, 1)
			w.cut = errReset{}
		}},
		{"429", Refused, "queue is full", func(_ *asked, w *reply) { w.error(429, `{"error":{"message":"queue is full"}}`) }},
		{"503", Unavailable, "all down", func(_ *asked, w *reply) { w.error(503, `{"error":"all down"}`) }},
		{"500", Failed, "oops", func(_ *asked, w *reply) { w.error(500, "oops\n") }},
		{"404", Failed, "no model", func(_ *asked, w *reply) { w.error(404, `{"object":"error","message":"no model"}`) }},
		{"error in the stream", Failed, "status 500", func(_ *asked, w *reply) {
			w.token("x")
			w.event(`{"error":{"message":"CUDA out of memory","code":500}}`)
			w.event("[DONE]")
		}},
		{"not a stream", Failed, "application/json", func(_ *asked, w *reply) { w.error(200, `{}`) }},
		{"nobody there", Unreachable, "refused", func(_ *asked, w *reply) { w.status = 0 }},
		{"no answer", TimedOut, "10s", func(a *asked, _ *reply) { <-a.ctx.Done() }},
		{"an answer without end", TimedOut, "10s", func(a *asked, w *reply) {
			for a.ctx.Err() == nil {
				time.Sleep(time.Second)
				w.token("x")
			}
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, _ := carry(t, Scenario{Clients: 1, Requests: 1, Timeout: Duration(10 * time.Second)}, tc.answer)
			if r.Total.Offered != 1 || r.Total.Outcomes[tc.outcome] != 1 {
				t.Errorf("outcomes %v, expected %s", r.Total.Outcomes, tc.outcome)
			}
			if good := r.Total.Good == 1; good != (tc.outcome == OK) {
				t.Errorf("good: %v", good)
			}
			switch {
			case tc.outcome == OK && len(r.Faults) > 0:
				t.Errorf("faults %v", r.Faults)
			case tc.outcome != OK && (len(r.Faults) != 1 || !strings.Contains(r.Faults[0].Message, tc.said)):
				t.Errorf("said %+v, expected %q", r.Faults, tc.said)
			}
		})
	}
}

type errReset struct{}

func (errReset) Error() string { return "connection reset by peer" }

// Goodput is of what was offered: one who is refused at once has not been served
// fast.
func TestGoodputCountsRefusals(t *testing.T) {
	r, _ := carry(t, Scenario{Rate: Rate{To: 10}, Requests: 40}, func(a *asked, w *reply) {
		switch a.n % 4 {
		case 0:
			w.stream(time.Second, 50*time.Millisecond, 10)
		case 1:
			w.stream(3*time.Second, 50*time.Millisecond, 10) // late
		case 2:
			w.stream(time.Second, 150*time.Millisecond, 10) // slow
		case 3:
			w.error(429, "")
		}
	})
	if g := r.Total; g.Good != 10 || *g.Goodput != 0.25 || g.Outcomes[OK] != 30 || g.Outcomes[Refused] != 10 {
		t.Errorf("%+v, goodput %v", g, *g.Goodput)
	}
	if out := text(r); !strings.Contains(out, "goodput 25.0% of the offered (ttft ≤ 2s, tpot ≤ 100ms)") {
		t.Errorf("printed:\n%s", out)
	}
}

// An open loop sends on while nobody answers, and what it cannot send it counts.
func TestOpenLoopDoesNotWait(t *testing.T) {
	r, e := carry(t, Scenario{Seed: 1, Rate: Rate{To: 20}, Duration: Duration(20 * time.Second), MaxOpen: 100, Timeout: Duration(time.Minute)}, func(a *asked, w *reply) {
		// Everything stands still for the first half minute.
		if a.n == 0 {
			time.Sleep(30 * time.Second)
		} else {
			time.Sleep(30*time.Second - time.Since(e0))
		}
		w.stream(0, 0, 1)
	})
	offered := len(arriving(Rate{To: 20}, 0, 20*time.Second, 1))
	if r.Total.Offered != offered || len(e.asked) != 100 || r.Total.Outcomes[Unsent] != offered-100 || r.Total.Outcomes[OK] != 100 {
		t.Errorf("offered %d of %d planned, sent %d: %v", r.Total.Offered, offered, len(e.asked), r.Total.Outcomes)
	}
	if r.Total.Failed() != offered-100 {
		t.Errorf("%d failed", r.Total.Failed())
	}
	if r.Offering != 20 {
		t.Errorf("offered for %vs", r.Offering)
	}
}

// Bubbles begin at this time.
var e0 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// In a closed loop a user waits for the answer, thinks, and asks again.
func TestClosedLoopWaitsAndThinks(t *testing.T) {
	r, e := carry(t, Scenario{Clients: 10, Think: Duration(time.Second), Duration: Duration(100 * time.Second)}, func(_ *asked, w *reply) {
		w.stream(time.Second, 0, 1)
	})
	if n := len(e.asked); n < 400 || n > 600 {
		t.Errorf("10 clients that wait and think for 2 s asked %d times in 100 s", n)
	}
	if most := slices.MaxFunc(r.Timeline, func(a, b Moment) int { return a.Open - b.Open }).Open; most > 10 {
		t.Errorf("%d requests were open", most)
	}
	if r.Elapsed < 100 || r.Elapsed > 101 {
		t.Errorf("took %vs", r.Elapsed)
	}
}

// With a ramp the clients come one after the other.
func TestClosedLoopRamp(t *testing.T) {
	_, e := carry(t, Scenario{Clients: 10, Ramp: Duration(20 * time.Second), Requests: 10}, func(_ *asked, w *reply) {
		w.stream(time.Minute, 0, 1)
	})
	for i, a := range e.asked {
		if want := time.Duration(i) * 2 * time.Second; a.at.Sub(e0) != want {
			t.Errorf("client %d began after %v, expected %v", i, a.at.Sub(e0), want)
		}
	}
}

// A server that refuses at once is not asked thousands of times a second.
func TestRefusedClientsPause(t *testing.T) {
	_, e := carry(t, Scenario{Clients: 2, Duration: Duration(5 * time.Second)}, func(_ *asked, w *reply) { w.error(429, "") })
	if n := len(e.asked); n != 40 {
		t.Errorf("asked %d times in 5 s", n)
	}
}

// Each turn repeats the prefix, the questions and the answers that came.
func TestConversations(t *testing.T) {
	_, e := carry(t, Scenario{Clients: 1, Requests: 4, Class: Class{Turns: 3, Prefixes: 2, PrefixTokens: 100, Input: Size{fixed, 10, 0}}},
		func(_ *asked, w *reply) { w.stream(0, time.Second, 3) })
	var roles []string
	for _, a := range e.asked {
		var of []string
		for _, m := range a.body.Messages {
			of = append(of, m.Role[:1])
		}
		roles = append(roles, strings.Join(of, ""))
	}
	if got := strings.Join(roles, " "); got != "su suau suauau su" {
		t.Fatalf("messages: %s", got)
	}
	for turn := 1; turn < 3; turn++ {
		before, now := e.asked[turn-1].body.Messages, e.asked[turn].body.Messages
		if !slices.Equal(before, now[:len(before)]) {
			t.Errorf("turn %d does not repeat what was said", turn)
		}
		if answer := now[len(before)]; answer.Content != strings.Repeat("x ", 3) {
			t.Errorf("turn %d says that the answer was %q", turn, answer.Content)
		}
	}
}

func TestClassesAndTenants(t *testing.T) {
	r, e := carry(t, Scenario{
		Clients: 4, Duration: Duration(5 * time.Second), Tenants: 2, TenantHeader: "Authorization: Bearer key-{tenant}", Headers: []string{"X-Team: a"},
		Classes: []Class{
			{Name: "edit", Share: 3, Header: "X-Class: interactive", Output: Size{fixed, 5, 0}},
			{Name: "summary", Share: 1, Tenant: "night", SLOTTFT: Duration(time.Millisecond)},
		},
	}, func(a *asked, w *reply) {
		w.header.Set("X-LLM-Endpoint", "gpu-"+a.header.Get("X-Class"))
		w.stream(500*time.Millisecond, 0, 2)
	})
	byClass := map[string]int{}
	for _, a := range e.asked {
		byClass[a.header.Get("X-Class")]++
		if a.header.Get("X-Team") != "a" {
			t.Fatal("a header is missing")
		}
		key := a.header.Get("Authorization")
		if night := a.body.Tokens == 128; night != (key == "Bearer key-night") {
			t.Errorf("%d tokens with %q", a.body.Tokens, key)
		}
	}
	if byClass["interactive"] != 30 || byClass[""] != 10 {
		t.Errorf("asked %v", byClass)
	}
	names := func(groups []Group) (out []string) {
		for _, g := range groups {
			out = append(out, g.Name)
		}
		return out
	}
	if got := names(r.Tenants); !slices.Equal(got, []string{"night", "tenant-1", "tenant-2"}) {
		t.Errorf("tenants %v", got)
	}
	if got := names(r.Endpoints); !slices.Equal(got, []string{"gpu-", "gpu-interactive"}) {
		t.Errorf("endpoints %v", got)
	}
	if c := r.Classes; len(c) != 2 || *c[0].Goodput != 1 || *c[1].Goodput != 0 || c[0].Offered != 30 {
		t.Errorf("classes %+v", c)
	}
}

// Whoever ends it early still gets the report, and nothing is held against the
// server that nobody knows.
func TestEndedEarly(t *testing.T) {
	e := &engine{answer: func(a *asked, w *reply) {
		switch a.n % 2 {
		case 0:
			w.stream(time.Second, time.Second, 60) // has begun
		default:
			<-a.ctx.Done() // has not, and is late
		}
	}}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		run := newRunner(completed(t, Scenario{Clients: 10}), "http://engine.test/", "", e)
		run.do(ctx)
		e.answers.Wait()
		r := run.record.report("")
		if !r.Interrupted || r.Elapsed != 5 || r.Total.Outcomes[Stopped] != 10 || r.Total.Failed() != 0 {
			t.Errorf("interrupted %v after %vs: %v", r.Interrupted, r.Elapsed, r.Total.Outcomes)
		}
		if r.Total.Goodput == nil || *r.Total.Goodput != 0 || run.record.total.undecided != 5 {
			t.Errorf("goodput %v, %d undecided", r.Total.Goodput, run.record.total.undecided)
		}
	})
}

// When this program is late, the user has waited all the same, and the report
// says whose fault it is.
func TestLateSendingCounts(t *testing.T) {
	e := &engine{answer: func(_ *asked, w *reply) { w.stream(time.Second, 0, 1) }}
	synctest.Test(t, func(t *testing.T) {
		run := newRunner(completed(t, Scenario{Rate: Rate{To: 1}}), "http://engine.test/", "", e)
		j := run.plan.arrival(0)
		x := run.exchange(&j, time.Now())
		time.Sleep(3 * time.Second)
		x.do(t.Context(), run.s.encode(conversation{{"user", j.own()}}, j.output))
		run.record.end(&x.sample)
		run.record.finish(false)
		e.answers.Wait()
		r := run.record.report("")
		within(t, "ttft", r.Total.TTFT.Max, 4*time.Second)
		within(t, "sending late", r.Late.Max, 3*time.Second)
		if out := text(r); !strings.Contains(out, "requests were sent up to 3.00s late") {
			t.Errorf("printed:\n%s", out)
		}
	})
}
