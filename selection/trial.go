package selection

import "time"

// An endpoint that is down and due for a trial gets one Call, whose end decides.
// Failures leave load behind that is not there, caches have gone cold, and those
// who served meanwhile are warm: left to the ordinary choice the endpoint might
// not get its trial for a long time. So the trial is given.
//
// It goes to a Call that loses little: one that can still be tried elsewhere,
// and, for the first seconds, one that no other endpoint holds the prefix of. A
// Call on its last attempt does not go there while anybody else is free. Where
// there are no retries nobody is sent there on purpose; the ordinary choice then
// takes the endpoint for one of the others, as soon as its failures have faded.
// A policy of Caddy's chooses for itself, the endpoint being among the others. One
// that checks have taken out gets no trial: they tell when it is back.

// trialPatience is how long a due trial waits for a Call that has no warm
// endpoint.
const trialPatience = 5 * time.Second

// judgeDown bars the seat when its endpoint is not ready, out by its checks, down,
// or due for a trial that is not for this Call.
func (ch *choice) judgeDown(s *seat) {
	e := s.endpoint
	if _, _, starting := e.Starting(ch.settings); starting {
		s.barred |= barStarting
	}
	if e.CheckedOut(ch.settings) {
		s.barred |= barChecks
		if !e.ServesAnyway(ch.now, ch.settings) {
			s.barred |= barOut
		}
	}
	if ch.hold && e.Gone(ch.now) {
		s.barred |= barOut // whoever can wait waits for it to be there
	}
	if e.Down(ch.now) || e.Asleep(ch.now, ch.settings) {
		s.barred |= barDown
		return
	}
	if _, s.onTrial = e.TrialDue(ch.now); s.onTrial && !ch.mayTry() {
		s.barred |= barDown
	}
	ch.trials = ch.trials || s.onTrial
}

// mayTry reports whether the Call is one for a trial: it makes the endpoint
// generate, and has an attempt left should that fail.
func (ch *choice) mayTry() bool {
	return ch.call.Generates() && (ch.settings.Retries == 0 || ch.call.Spending() < ch.settings.Retries)
}

// giveTrial leaves nothing but the seat that has been due for its trial longest,
// if the Call is to be it, and reports whether it is.
func (ch *choice) giveTrial() bool {
	if !ch.trials || ch.settings.Retries == 0 || len(ch.left) < 2 || !ch.mayTry() {
		return false
	}
	var trial *seat
	var since time.Time
	others := false
	for _, s := range ch.left {
		switch {
		case !s.onTrial, s.barred&barChecks != 0: // a check says whether it is back
			others = true
		default:
			if due, _ := s.endpoint.TrialDue(ch.now); trial == nil || due.Before(since) {
				trial, since = s, due
			}
		}
	}
	if trial == nil || !others {
		return false // nothing is lost by an ordinary choice among them
	}
	if ch.now.Sub(since) < trialPatience && ch.markWarm() > 0 && !trial.warm {
		return false
	}
	ch.left = append(ch.left[:0], trial)
	return true
}
