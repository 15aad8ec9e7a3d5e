package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// trio starts three servers behind one gateway.
func trio(t *testing.T, options string) (*gateway, []*backend) {
	t.Helper()
	list := []*backend{newBackend(t), newBackend(t), newBackend(t)}
	g := start(t, fmt.Sprintf("llm_proxy %s %s %s {\n%s%s}\n", list[0].addr(), list[1].addr(), list[2].addr(), named(list...), options))
	return g, list
}

// New conversations spread evenly, whatever the addresses look like.
func TestColdPromptsSpreadEvenly(t *testing.T) {
	g, list := trio(t, fast)
	const prompts = 1500
	for i := range prompts {
		g.post(chat(false, "", fmt.Sprintf("question %d about something else", i)))
	}
	for i, b := range list {
		if got := b.count(); got < prompts/3*8/10 || got > prompts/3*12/10 {
			t.Errorf("server %d got %d of %d, want a third within 20 %%", i, got, prompts)
		}
	}
}

// Thirty requests within one scrape interval: what was just sent counts at once.
func TestDecisionsSeeWhatWasJustSent(t *testing.T) {
	g, list := trio(t, "scrape_interval 5s\nstale_after 20s\n")
	together(30, list...)
	served := burst(g, 30, distinct)
	for _, name := range []string{"a", "b", "c"} {
		if served[name] < 8 || served[name] > 12 {
			t.Errorf("split %v, want 8 to 12 each", served)
			break
		}
	}
}

// Thirty users share one long system prompt. Wherever their first turns went,
// their second turns go to the same place.
func TestSecondTurnFollowsTheFirst(t *testing.T) {
	g, _ := trio(t, fast)
	system := prose("the rules of the house", 12_000)
	homes := map[int]string{}
	for i := range 30 {
		homes[i] = g.post(chat(false, system, fmt.Sprintf("user %d asks", i))).endpoint()
	}
	followed := 0
	for i := range 30 {
		body := fmt.Sprintf(`{"model":"m","messages":[{"role":"system","content":%q},{"role":"user","content":"user %d asks"},{"role":"assistant","content":"hello"},{"role":"user","content":"and then?"}]}`, system, i)
		if g.post(body).endpoint() == homes[i] {
			followed++
		}
	}
	if followed < 27 {
		t.Errorf("%d of 30 second turns went where the first went, want at least 27", followed)
	}
}

// A growing conversation keeps its home from the first short turn on.
func TestConversationKeepsItsHome(t *testing.T) {
	g, _ := trio(t, fast)
	stayed, turns := 0, 0
	for conversation := range 20 {
		var messages []string
		home := ""
		for turn := range 6 {
			text := prose(fmt.Sprintf("conversation %d turn %d", conversation, turn), 480)
			messages = append(messages, fmt.Sprintf(`{"role":"user","content":%q}`, text))
			r := g.post(`{"model":"m","messages":[` + strings.Join(messages, ",") + `]}`)
			messages = append(messages, `{"role":"assistant","content":"hello"}`)
			if turn == 0 {
				home = r.endpoint()
				continue
			}
			turns++
			if r.endpoint() == home {
				stayed++
			}
		}
	}
	if stayed*100 < turns*95 {
		t.Errorf("%d of %d turns stayed at home, want 95 %%", stayed, turns)
	}
}

// The middle of one prompt is not the beginning of another: blocks are chained.
func TestTextInTheMiddleIsNoPrefix(t *testing.T) {
	g, a, b := pair(t, "")
	x, y := prose("the first document", 16<<10), prose("another document", 16<<10)
	full := load{kv: 0.97}
	at := func(free, busy *backend) {
		free.set(load{})
		busy.set(full)
		free.seen()
		busy.seen()
	}
	prompt := func(text string) reply {
		return g.send("/v1/completions", strings.NewReader(fmt.Sprintf(`{"model":"m","prompt":%q}`, text)))
	}
	at(a, b)
	if got := prompt(x).endpoint(); got != "a" {
		t.Fatalf("x went to %s", got)
	}
	at(b, a)
	if got := prompt(y).endpoint(); got != "b" {
		t.Fatalf("y went to %s", got)
	}
	a.set(load{})
	a.seen()
	if r := prompt(y + x); r.endpoint() != "b" || r.decision() != "warm" {
		t.Errorf("y+x went to %s (%s), want the warm b", r.endpoint(), r.decision())
	}
	if r := prompt(x + y); r.endpoint() != "a" || r.decision() != "warm" {
		t.Errorf("x+y went to %s (%s), want the warm a", r.endpoint(), r.decision())
	}
}

// Simultaneous requests split evenly over equal servers, with the whole
// directive and with the policy alone in somebody's reverse_proxy.
func TestSimultaneousRequestsSplitEvenly(t *testing.T) {
	for _, name := range []string{"llm_proxy", "policy alone"} {
		t.Run(name, func(t *testing.T) {
			a, b := newBackend(t), newBackend(t)
			site := fmt.Sprintf("llm_proxy %s %s {\n%s}\n", a.addr(), b.addr(), fast)
			if name == "policy alone" {
				site = fmt.Sprintf("reverse_proxy %s %s {\nlb_policy llm {\n%s}\n}\n", a.addr(), b.addr(), fast)
			}
			g := start(t, site)
			together(32, a, b)
			burst(g, 32, distinct)
			if a.count() < 12 || a.count() > 20 {
				t.Errorf("split %d : %d, want 16 : 16 within 4", a.count(), b.count())
			}
		})
	}
}
