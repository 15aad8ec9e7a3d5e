package virtual

import (
	"slices"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
)

// mixed is a service in which people edit while summaries are made: three fifths
// of the tokens asked for are the summaries'.
type mixed struct {
	w        *world
	sessions []*session
}

// session is somebody who edits a text of some length: every request has the
// text, and what is wanted.
type session struct {
	guest *guest
	text  passage
	left  int
}

// What is asked for, in tokens.
var (
	summary   = lengths{4000, 12000, 200, 600}
	edit      = lengths{50, 400, 16, 96}
	editText  = [2]int{2000, 6000}
	editTurns = 20
	// calls are as frequent as they must be for three fifths.
	summaryShare = func() float64 {
		summaries := float64(summary.short+summary.long+summary.least+summary.most) / 2
		edits := float64(edit.short+edit.long+edit.least+edit.most+editText[0]+editText[1]) / 2
		return 0.6 / summaries / (0.6/summaries + 0.4/edits)
	}()
)

func newMixed(w *world, sessions int) *mixed {
	return &mixed{w: w, sessions: make([]*session, sessions)}
}

var summarizer = &guest{class: background}

// both makes up a call of either kind, and says whose it is.
func (m *mixed) both() (*guest, *prompt) {
	if m.w.rng.Float64() < summaryShare {
		return summarizer, m.w.prompts(summary)()
	}
	return m.edit()
}

// edit makes up an edit.
func (m *mixed) edit() (*guest, *prompt) {
	w := m.w
	i := w.rng.IntN(len(m.sessions))
	s := m.sessions[i]
	if s == nil || s.left == 0 {
		s = &session{guest: nobody, text: w.write(w.between(editText[0], editText[1])), left: editTurns}
		m.sessions[i] = s
	}
	s.left--
	return s.guest, &prompt{
		text:   []passage{s.text, w.write(w.between(edit.short, edit.long))},
		answer: w.write(w.between(edit.least, edit.most)), first: 2,
	}
}

// capacityOf is how many of somebody's calls a second one engine can serve when it
// never waits for work.
func capacityOf(t testing.TB, cfg engine.Config, load func(*world) func() (*guest, *prompt)) float64 {
	t.Helper()
	w := newWorld(t, 1, cfg).scraped()
	next := load(w)
	var ask func(*visit)
	ask = func(*visit) {
		g, p := next()
		w.bring(g, p, ask)
	}
	for range 96 {
		w.after(time.Duration(w.rng.Float64()*float64(time.Second)), arrives, func() { ask(nil) })
	}
	w.until(300)
	begin := w.now
	w.until(1500)
	return 1200 / (w.now - begin).Seconds()
}

// during has calls arrive at random for a time.
func (w *world) during(perSecond float64, from, to time.Duration, next func() (*guest, *prompt)) {
	var arrive func()
	arrive = func() {
		if w.now < to {
			g, p := next()
			w.bring(g, p, nil)
			w.after(w.exponential(perSecond), arrives, arrive)
		}
	}
	w.after(from+w.exponential(perSecond), arrives, arrive)
}

// runTo lets time pass until then.
func (w *world) runTo(then time.Duration) {
	w.run(func() bool { return w.plans[0].at > then })
	w.now = then
}

// times are some times to first token in seconds, in order.
type times []float64

// ttft returns the times to first token of those calls that arrived in a time. One
// that has none counts as what late makes of the time it has waited, up to now or
// until it was refused.
func (w *world) ttft(from, to time.Duration, which func(*visit) bool, late func(waited time.Duration) time.Duration) times {
	var list times
	for _, v := range w.visits {
		switch {
		case v.arrived < from || v.arrived >= to || !which(v):
		case v.first > 0:
			list = append(list, (v.first - v.arrived).Seconds())
		case v.ends > 0:
			list = append(list, late(v.last-v.arrived).Seconds())
		default:
			list = append(list, late(w.now-v.arrived).Seconds())
		}
	}
	slices.Sort(list)
	return list
}

// asLong is for calls that count as what they have waited.
func asLong(waited time.Duration) time.Duration { return waited }

func anybody(*visit) bool    { return true }
func isEdit(v *visit) bool   { return v.guest.class == interactive }
func servedIn(v *visit) bool { return v.ends > 0 && !v.refused && !v.gone }

// many counts calls.
func (w *world) many(which func(*visit) bool) (n int) {
	for _, v := range w.visits {
		if which(v) {
			n++
		}
	}
	return n
}

func (l times) quantile(q float64) float64 {
	if len(l) == 0 {
		return 0
	}
	return l[min(len(l)-1, int(q*float64(len(l))))]
}

func (l times) mean() float64 {
	sum := 0.0
	for _, x := range l {
		sum += x
	}
	return sum / float64(max(1, len(l)))
}

// tokensServed is what clients have got: the prompts of all calls with a first
// token, and what was generated.
func (w *world) tokensServed() (n int) {
	for _, v := range w.visits {
		if v.first > 0 {
			n += v.input
		}
		n += v.tokens
	}
	return n
}

func four(preset string) []engine.Config {
	cfg, _ := engine.Preset(preset)
	return []engine.Config{cfg, cfg, cfg, cfg}
}
