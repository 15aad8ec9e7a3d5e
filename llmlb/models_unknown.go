package llmlb

import (
	"strings"
	"time"
	"unicode"
)

// modelsFresh is how old a list may be by which a request is refused: three times
// the interval at which lists are read, so that an engine which cannot be asked at
// the moment, perhaps because another one is being started in its place, is not
// judged by what it was.
const modelsFresh = 90 * time.Second

// maxListedName is the longest name that lists of models are read for.
const maxListedName = 256

// UnknownModel reports whether no server of the settings would know the model, for
// sure: every one that takes anything new has a list of late, is of an engine that
// checks names (see Signals.ChecksModels), and does not list it. One that is
// draining counts only for what it does list, since its work may come back. In any
// doubt, and for a name that is empty or that no list could hold, it is false, and
// an engine answers.
func (p *Pool) UnknownModel(s *Settings, model string, now time.Time) bool {
	if !listable(model) {
		return false
	}
	hash := ModelHash(model)
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, maybe := false, false
	p.ofSettings(s, func(e *Endpoint) bool {
		switch listed, sure := e.lists(hash, now); {
		case listed:
			maybe = true
		case e.drain.on():
		case !sure:
			maybe = true
		default:
			asked = true
		}
		return !maybe
	})
	return asked && !maybe
}

// lists reports whether the endpoint's list has the model, and whether its engine
// would take no other. Under the pool's lock.
func (e *Endpoint) lists(model uint64, now time.Time) (listed, sure bool) {
	if yes, known := e.Serves(model, now); yes || !known {
		return yes, yes
	}
	l := &e.ledger
	return false, l.signals.ChecksModels &&
		now.Sub(e.served.at) <= modelsFresh && now.Sub(l.pageAt) <= modelsFresh
}

// listable reports whether a list of models could have the name.
func listable(name string) bool {
	return name != "" && len(name) <= maxListedName &&
		!strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) })
}
