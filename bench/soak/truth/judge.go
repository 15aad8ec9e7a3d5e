package truth

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// End is how a request ended for its client.
type End string

// The ends.
const (
	Clean  End = "clean"  // as answers end
	Broken End = "broken" // the answer broke off
	Left   End = "left"   // the client went away itself
	Hung   End = "hung"   // nothing more came for as long as a client waits

	// TurnedAway: the connection ended before an answer began while a configuration
	// was replaced. Caddy closes its listener with whatever it has not accepted, and
	// connections on which it has not read a request yet. The client asks again.
	TurnedAway End = "turned away"
)

// Request is one request as its client knows it.
type Request struct {
	ID, Pool string
	Tenant   string
	Bounded  bool // the tenant has a limit
	Stream   bool
	Slow     bool // the client reads slowly enough to be given up

	Sent, First, Ended time.Time // First: when the first piece had come; zero without one

	Status   int
	Endpoint string // as the gateway's header names it
	Code     string // of an error that the gateway answers itself
	Answer   *Answer
	End      End
	Err      string
}

// Generation is one request as a server knows it.
type Generation struct {
	Name, Engine string
	Fault        Fault
	Began, Ended time.Time // Ended is zero while it goes on, or when the server was killed
	Pieces       int       // written
	Left         bool      // its client left
	BodyWrong    bool      // the body was whole, and not what the client had sent
}

// Spell is a time in which something was done to a server.
type Spell struct {
	Kind, Engine string
	Pool         string // of drains
	From, To     time.Time
}

// The kinds of spells. A drain is no trouble: it explains nothing that goes wrong.
const (
	Killed  = "kill"
	Stopped = "stop"
	Cut     = "cut"
	Drained = "drain"
	Reload  = "reload"
)

// Rules are what a judge goes by.
type Rules struct {
	// Attempts is how many attempts a request of the pool may take.
	Attempts map[string]int

	// Tries is that with those that a server has refused before it did anything.
	Tries int

	// Once names pools where no answer is generated twice.
	Once map[string]bool

	// Slack is how much later than another a server may see that a client left.
	Slack time.Duration
}

// judging is one request under judgement.
type judging struct {
	Rules
	r      Request
	made   []Generation
	spells []Spell
	lies   []Lie
}

// Judge tells what is wrong with a request, all of its generations, and what was
// done to servers meanwhile. It also tells how the request ended, in a word.
func (rules Rules) Judge(r Request, made []Generation, spells []Spell) (word string, lies []Lie) {
	j := judging{Rules: rules, r: r, made: slices.Clone(made), spells: spells}
	slices.SortFunc(j.made, func(a, b Generation) int { return cmp.Compare(a.Began.UnixNano(), b.Began.UnixNano()) })
	word = j.end()
	j.source()
	j.attempts()
	return word, j.lies
}

func (j *judging) lie(kind Kind, form string, args ...any) {
	j.lies = append(j.lies, Lie{kind, fmt.Sprintf(form, args...)})
}

// end judges how the request ended.
func (j *judging) end() string {
	r := j.r
	answered := r.Status == http.StatusOK
	if answered {
		j.lies = append(j.lies, r.Answer.Lies(r.End == Clean)...)
	}
	switch {
	case r.End == Left:
		return "left"
	case r.End == Hung:
		j.lie(Lost, "nothing came for %v, after status %d and %d pieces", r.Ended.Sub(r.Sent).Round(time.Millisecond), r.Status, r.Answer.Pieces)
		return "lost"
	case r.End == TurnedAway:
		if len(j.made) > 0 {
			j.lie(Lost, "the connection ended without an answer (%s), though %s had the request", r.Err, j.made[0].Name)
		} else if !j.during(r.Sent, r.Ended, Reload, "") {
			j.lie(Lost, "the connection ended without an answer (%s), and no reload had closed it", r.Err)
		}
		return string(TurnedAway)
	case !answered:
		return j.refused()
	case r.End == Broken || r.Answer.Error:
		return j.broken()
	}
	if !r.Answer.Done && !j.had(func(g Generation) bool { return g.Fault == NoDone }) {
		j.lie(CutSilently, "[DONE] is missing, and the server sent it")
	}
	if r.Answer.Broken > 0 && !j.had(func(g Generation) bool { return g.Fault == Malformed }) {
		j.lie(Garbage, "%d events are no JSON, and the server sent JSON", r.Answer.Broken)
	}
	return "whole"
}

// refused judges an error status.
func (j *judging) refused() string {
	r := j.r
	// A server that was dead, stood still or was cut off may have cost an attempt
	// without knowing of it.
	trouble := map[string]bool{}
	for _, s := range j.spells {
		if s.Kind == Killed || s.Kind == Stopped || s.Kind == Cut {
			if j.during(r.Sent, r.Ended, s.Kind, s.Engine) {
				trouble[s.Engine] = true
			}
		}
	}
	failed := 0
	for _, g := range j.made {
		if (early[g.Fault] || late[g.Fault]) && !trouble[g.Engine] { // a reset can overtake the first token
			failed++
		}
	}
	switch {
	case r.End == Broken:
		j.lie(CutForNothing, "the body of status %d broke off: %s", r.Status, r.Err)
	case r.Status == http.StatusTooManyRequests && r.Bounded && r.Code == "tenant_concurrent":
		return "limited"
	case r.Status == http.StatusBadRequest && j.had(func(g Generation) bool { return g.Fault == BadRequest }):
		return "bad request"
	case failed >= j.Attempts[r.Pool]:
	case failed+len(trouble) >= j.Attempts[r.Pool]:
		return "refused in trouble"
	default:
		j.lie(Refused, "status %d %s after %v: %d of %d attempts that servers have seen failed, %d servers were in trouble", r.Status, r.Code,
			r.Ended.Sub(r.Sent).Round(time.Millisecond), failed, len(j.made), len(trouble))
	}
	return "refused"
}

// broken judges an answer that visibly broke off.
func (j *judging) broken() string {
	r := j.r
	for _, g := range j.made {
		if g.Name != r.Answer.Generation && r.Answer.Generation != "" {
			continue
		}
		if late[g.Fault] || r.Slow {
			return "cut"
		}
		for _, kind := range []string{Killed, Stopped, Cut} {
			if j.during(g.Began, r.Ended, kind, g.Engine) {
				return "cut in trouble"
			}
		}
	}
	j.lie(CutForNothing, "it broke off after %d pieces (%s, error event: %v)", r.Answer.Pieces, r.Err, r.Answer.Error)
	return "cut"
}

// source judges whether the answer is that of the server it seems to be from.
func (j *judging) source() {
	r := j.r
	if r.Answer == nil || r.Answer.Generation == "" {
		return
	}
	i := slices.IndexFunc(j.made, func(g Generation) bool { return g.Name == r.Answer.Generation })
	if i < 0 {
		j.lie(MixedUp, "the answer is of %s, which had no such request", r.Answer.Generation)
		return
	}
	g := j.made[i]
	if r.Answer.Pieces > g.Pieces && !g.Ended.IsZero() {
		j.lie(Doubled, "%d pieces came of %d that were sent", r.Answer.Pieces, g.Pieces)
	}
	if r.Endpoint != g.Engine {
		j.lie(MixedUp, "the answer is said to be of %q, and is of %s", r.Endpoint, g.Name)
	}
	for _, later := range j.made[i+1:] {
		if !j.stale(later) {
			j.lie(Spliced, "the answer is of %s, and %s began after it", g.Name, later.Name)
		}
	}
}

// attempts judges which servers were asked, and when.
func (j *judging) attempts() {
	r := j.r
	// A connection that turns out to be stale costs a second request.
	if most := 2 * j.Tries; len(j.made) > most {
		j.lie(AskedAgain, "servers were asked %d times, %d at most are allowed", len(j.made), most)
	}
	generated := 0
	for i, g := range j.made {
		if !full[g.Fault] {
			generated++
		}
		switch {
		case j.stale(g):
		case !r.First.IsZero() && g.Began.After(r.First):
			j.lie(AskedAgain, "%s began %v after the client had a token", g.Name, g.Began.Sub(r.First))
		case r.End == Left && g.Began.After(r.Ended.Add(j.Slack)):
			j.lie(AskedAgain, "%s began %v after the client had left", g.Name, g.Began.Sub(r.Ended))
		}
		if r.End == Left && !j.gone(g, r.Ended) {
			j.lie(Abandoned, "%s went on after the client had left", g.Name)
		}
		if i+1 < len(j.made) && !j.stale(j.made[i+1]) && !j.gone(g, j.made[i+1].Began) {
			j.lie(AskedAgain, "%s began while %s still generated", j.made[i+1].Name, g.Name)
		}
		if g.Ended.IsZero() && !j.during(g.Began, g.Began.Add(forever), Killed, g.Engine) {
			j.lie(Abandoned, "%s has never ended", g.Name)
		}
		if g.BodyWrong {
			j.lie(Corrupt, "%s got another body than was sent", g.Name)
		}
		for _, s := range j.spells {
			if s.Kind == Drained && s.Pool == r.Pool && s.Engine == g.Engine && g.Began.After(s.From) && g.Began.Before(s.To) && !j.stale(g) {
				j.lie(Undrained, "%s began %v after the drain", g.Name, g.Began.Sub(s.From))
			}
		}
	}
	if j.Once[r.Pool] && generated > 1 {
		j.lie(AskedAgain, "%d servers had the request in a pool where none is asked twice", generated)
	}
}

const (
	// forever is longer than any generation lasts.
	forever = time.Hour

	// instant is shorter than a server thinks before its answer begins.
	instant = 4 * time.Millisecond
)

// gone says whether a generation was over soon after a moment, or could not
// know that it should be.
func (j *judging) gone(g Generation, when time.Time) bool {
	if j.during(g.Began, when.Add(j.Slack), Killed, g.Engine) || j.during(g.Began, when.Add(j.Slack), Stopped, g.Engine) {
		return true
	}
	return !g.Ended.IsZero() && !g.Ended.After(when.Add(j.Slack))
}

// stale says whether the server may have read what had long been given up: it had
// stood still since the request was sent, or was so busy that it saw in the same
// moment that nobody was there any more.
func (j *judging) stale(g Generation) bool {
	atOnce := g.Left && g.Pieces == 0 && g.Ended.Sub(g.Began) < instant
	return atOnce || j.during(j.r.Sent, g.Began, Stopped, g.Engine)
}

// during says whether something was done to a server within a time; with no name
// to any.
func (j *judging) during(from, to time.Time, kind, engine string) bool {
	return slices.ContainsFunc(j.spells, func(s Spell) bool {
		return s.Kind == kind && (engine == "" || s.Engine == engine) && s.From.Before(to) && (s.To.IsZero() || s.To.After(from))
	})
}

// had says whether any generation was so.
func (j *judging) had(is func(Generation) bool) bool { return slices.ContainsFunc(j.made, is) }
