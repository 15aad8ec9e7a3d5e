package simulator

import (
	"net/http"
	"slices"
	"time"
)

// faultHeader asks for a fault for one request.
const faultHeader = "X-Simulator-Fault"

// faults are a server's: those of the handlers, which are its doors, and those
// that the admin route has set. The server's lock guards them.
type faults struct {
	doors [][]*rule // of the configurations, the latest last
	live  []*rule   // instead of those, when set is true
	set   bool

	requests, open, hit, byHeader, left int64
}

// openDoor puts a handler's faults in force and returns them. A fault that
// another handler of the server has too is the same one: so it goes on counting
// when the configuration is reloaded.
func (s *server) openDoor(rules []*rule) []*rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range rules {
		for _, known := range slices.Concat(s.faults.doors...) {
			if known.Fault == r.Fault {
				rules[i] = known
			}
		}
	}
	s.faults.doors = append(s.faults.doors, rules)
	return rules
}

// closeDoor forgets the faults that openDoor returned.
func (s *server) closeDoor(rules []*rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, door := range s.faults.doors {
		if slices.Equal(door, rules) {
			s.faults.doors = slices.Delete(s.faults.doors, i, i+1)
			return
		}
	}
}

// setFaults puts faults in force instead of those of the configuration, also
// when there are none among them.
func (s *server) setFaults(rules []*rule) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.live, s.faults.set = rules, true
}

// clearFaults brings those of the configuration back.
func (s *server) clearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.live, s.faults.set = nil, false
}

// inForce returns the faults that count for a request through a door.
func (s *server) inForce(door []*rule) []*rule {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.set {
		return s.faults.live
	}
	return door
}

// arrive counts a request that generates; depart is called at its end.
func (s *server) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.requests++
	s.faults.open++
}

func (s *server) depart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.open--
}

// gone counts a client that left before the end of its answer. There is nobody
// to answer.
func (s *server) gone() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.left++
	return nil
}

// looksAtText says whether the choice of a fault needs the request's body.
func looksAtText(rules []*rule) bool {
	return slices.ContainsFunc(rules, func(r *rule) bool { return r.Match != "" })
}

// choose finds the fault of a request that generates: the one that its header
// asks for, or the first in force that takes it.
func (s *server) choose(rules []*rule, r *http.Request, text string) (fault, error) {
	if asked := r.Header.Get(faultHeader); asked != "" {
		f, err := parseFault(asked)
		if err == nil {
			s.mu.Lock()
			s.faults.hit++
			s.faults.byHeader++
			s.mu.Unlock()
		}
		return f, err
	}
	now := time.Now()
	for _, rule := range rules {
		if rule.takes(now, text) {
			s.mu.Lock()
			s.faults.hit++
			s.mu.Unlock()
			return rule.what, nil
		}
	}
	return fault{}, nil
}

// wholeFault finds a fault that a request gets which does not generate: of a process
// that is frozen, dead or loading.
func wholeFault(rules []*rule, path string) fault {
	now := time.Now()
	for _, r := range rules {
		health := path == "/health" || path == "/ping"
		if r.Everything || r.what.kind == faultLoading && health {
			if !r.over(now) {
				return r.what
			}
		}
	}
	return fault{}
}
