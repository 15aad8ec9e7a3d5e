package health

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// poolsPrefix is before the name of one pool.
const poolsPrefix = "/llmlb/pools/"

// one answers for one pool and for one of its endpoints:
//
//	GET    /llmlb/pools/<pool>
//	GET    /llmlb/pools/<pool>/endpoints/<name or address>
//	GET    /llmlb/pools/<pool>/endpoints/<name or address>/drain
//	POST   /llmlb/pools/<pool>/endpoints/<name or address>/drain[?limit=<duration>][&cut=<bool>]
//	DELETE /llmlb/pools/<pool>/endpoints/<name or address>/drain
//	POST   /llmlb/pools/<pool>/endpoints/<name or address>/reset
//
// Names and addresses are percent-encoded where they have a slash or the like. What
// changes an endpoint is answered with its row afterwards.
func (a admin) one(w http.ResponseWriter, r *http.Request) error {
	s, err := readSubject(r.URL.EscapedPath())
	if err != nil {
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	do := s.methods()
	if do == nil {
		return a.unknown(w, r)
	}
	if do[r.Method] == nil {
		return notAllowed(w, do)
	}
	if err := s.find(); err != nil {
		return caddy.APIError{HTTPStatus: http.StatusNotFound, Err: err}
	}
	answer, err := do[r.Method](r)
	switch {
	case errors.Is(err, llmlb.ErrDrainConfigured), errors.Is(err, llmlb.ErrDrainRemoved):
		return caddy.APIError{HTTPStatus: http.StatusConflict, Err: err}
	case err != nil:
		return caddy.APIError{HTTPStatus: http.StatusBadRequest, Err: err}
	}
	return writeJSON(w, answer)
}

// subject is what a path is about: a pool, or something of one of its endpoints.
type subject struct {
	pool     string
	endpoint string // "" for the pool itself
	part     string // of the endpoint, "" for all of it

	p *llmlb.Pool // both set by find
	e *llmlb.Endpoint
}

// readSubject reads a path as it was sent: an encoded slash is part of a name.
func readSubject(escaped string) (s subject, err error) {
	parts := strings.Split(strings.TrimPrefix(escaped, poolsPrefix), "/")
	for i, part := range parts {
		if parts[i], err = url.PathUnescape(part); err != nil {
			return s, fmt.Errorf("reading the path: %w", err)
		}
	}
	switch n := len(parts); {
	case n == 1:
		s.pool = parts[0]
	case (n == 3 || n == 4 && parts[3] != "") && parts[1] == "endpoints" && parts[2] != "":
		s.pool, s.endpoint = parts[0], parts[2]
		if n == 4 {
			s.part = parts[3]
		}
	}
	return s, nil
}

// action does what is asked for and returns what to answer. Its errors are the
// client's, llmlb.ErrDrainConfigured or llmlb.ErrDrainRemoved.
type action func(*http.Request) (any, error)

// methods returns what can be done with the subject, nil where there is none.
func (s *subject) methods() map[string]action {
	switch {
	case s.pool == "":
		return nil
	case s.endpoint == "":
		return map[string]action{http.MethodGet: s.showPool}
	case s.part == "":
		return map[string]action{http.MethodGet: s.showRow}
	case s.part == "drain":
		return map[string]action{http.MethodGet: s.showDrain, http.MethodPost: s.drain, http.MethodDelete: s.resume}
	case s.part == "reset":
		return map[string]action{http.MethodPost: s.reset}
	}
	return nil
}

// find looks the subject up, or says which there are.
func (s *subject) find() error {
	var pools, endpoints []string
	llmlb.Pools(func(p *llmlb.Pool) {
		pools = append(pools, p.Name())
		if p.Name() == s.pool {
			s.p = p
		}
	})
	switch {
	case s.p == nil:
		return fmt.Errorf("there is no pool %q; have %s", s.pool, listed(pools))
	case s.endpoint == "":
		return nil
	}
	for _, e := range s.p.Endpoints() {
		switch {
		case e.Address() == s.endpoint:
			s.e = e // an address is one endpoint's, whatever others are called
			return nil
		case e.Name() == s.endpoint:
			s.e = e
		}
		endpoints = append(endpoints, e.Name())
	}
	if s.e == nil {
		return fmt.Errorf("there is no endpoint %q in pool %q; have %s", s.endpoint, s.pool, listed(endpoints))
	}
	return nil
}

func (s *subject) showPool(r *http.Request) (any, error) {
	return s.p.Status(time.Now()), bare(r)
}

func (s *subject) showRow(r *http.Request) (any, error) { return s.row(), bare(r) }

// drainState is how far a drain has come; Drain is null where there is none.
type drainState struct {
	State string             `json:"state"`
	Drain *llmlb.DrainStatus `json:"drain"`
}

func (s *subject) showDrain(r *http.Request) (any, error) {
	row := s.row()
	return drainState{State: row.State, Drain: row.Drain}, bare(r)
}

func (s *subject) drain(r *http.Request) (any, error) {
	order, err := readOrder(r)
	if err != nil {
		return nil, err
	}
	s.e.Drain(time.Now(), order)
	return s.row(), nil
}

func (s *subject) resume(r *http.Request) (any, error) {
	if err := bare(r); err != nil {
		return nil, err
	}
	if err := s.e.Resume(time.Now()); err != nil {
		return nil, err
	}
	return s.row(), nil
}

func (s *subject) reset(r *http.Request) (any, error) {
	if err := bare(r); err != nil {
		return nil, err
	}
	s.e.Reset(time.Now())
	return s.row(), nil
}

// row is the endpoint as the pool's table shows it.
func (s *subject) row() *llmlb.EndpointStatus {
	for _, row := range s.p.Status(time.Now()).Endpoints {
		if row.Address == s.e.Address() {
			return &row
		}
	}
	// It has left since it was found: nothing runs there any more.
	return &llmlb.EndpointStatus{Name: s.e.Name(), Address: s.e.Address(), State: llmlb.Drained.String(), Reason: "no longer configured"}
}

func notAllowed(w http.ResponseWriter, do map[string]action) error {
	var have []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		if do[method] != nil {
			have = append(have, method)
		}
	}
	allow := strings.Join(have, ", ")
	w.Header().Set("Allow", allow)
	return caddy.APIError{HTTPStatus: http.StatusMethodNotAllowed, Err: errors.New("method not allowed; have " + allow)}
}
