package simulator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
)

const (
	adminPath = "/simulator/faults"

	// maxAdminBody bounds what is read of a request to the admin route.
	maxAdminBody = 64 << 10
)

// admin is the simulator's part of Caddy's admin API, with its rules of who may
// ask. It sees all living simulated servers, of all configurations.
//
//	GET    /simulator/faults[/<name>]   tells the faults in force and what they did
//	PUT    /simulator/faults[/<name>]   puts others in their place
//	DELETE /simulator/faults[/<name>]   brings those of the configuration back
//
// Without a name all servers are meant. Each answers with the servers as they
// are afterwards.
type admin struct{}

// CaddyModule returns the Caddy module information.
func (admin) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.llm_simulator", New: func() caddy.Module { return new(admin) }}
}

// Routes implements caddy.AdminRouter.
func (a admin) Routes() []caddy.AdminRoute {
	return []caddy.AdminRoute{
		{Pattern: adminPath, Handler: caddy.AdminHandlerFunc(a.serve)},
		{Pattern: adminPath + "/", Handler: caddy.AdminHandlerFunc(a.serve)},
	}
}

func (admin) serve(w http.ResponseWriter, r *http.Request) error {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, adminPath), "/")
	if r.URL.RawQuery != "" {
		return badRequest(http.StatusBadRequest, errors.New("no parameters are known here; a server's name stands in the path"))
	}
	// What stands in the request is looked at before which server it is for, so
	// that a mistake changes none.
	var wanted []Fault
	switch r.Method {
	case http.MethodGet, http.MethodDelete:
	case http.MethodPut:
		var err error
		if wanted, err = readFaults(w, r); err != nil {
			return badRequest(http.StatusBadRequest, err)
		}
	default:
		w.Header().Set("Allow", "GET, PUT, DELETE")
		return badRequest(http.StatusMethodNotAllowed, errors.New("method not allowed; have GET, PUT, DELETE"))
	}
	found, names := living(name)
	if len(found) == 0 && name != "" {
		return badRequest(http.StatusNotFound, fmt.Errorf("there is no simulated server %q; have %s", name, strings.Join(names, ", ")))
	}
	states := []serverState{} // no server is an empty list, not null
	for _, s := range found {
		switch r.Method {
		case http.MethodPut:
			rules, err := newRules(wanted, time.Now())
			if err != nil {
				return badRequest(http.StatusBadRequest, err)
			}
			s.setFaults(rules)
		case http.MethodDelete:
			s.clearFaults()
		}
		states = append(states, s.state())
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	return json.NewEncoder(w).Encode(states)
}

func badRequest(status int, err error) error {
	return caddy.APIError{HTTPStatus: status, Err: err}
}

// living returns the servers with a name, or all, and the names there are.
func living(name string) (found []*server, names []string) {
	servers.Range(func(_, v any) bool {
		s := v.(*server)
		if names = append(names, s.options.name); name == "" || name == s.options.name {
			found = append(found, s)
		}
		return true
	})
	slices.SortFunc(found, func(a, b *server) int {
		if c := strings.Compare(a.options.name, b.options.name); c != 0 {
			return c
		}
		return a.started.Compare(b.started)
	})
	slices.Sort(names)
	if names = slices.Compact(names); len(names) == 0 {
		names = []string{"none"}
	}
	return found, names
}

// readFaults reads a fault or a list of them in JSON, or a fault as plain text,
// and checks them.
func readFaults(w http.ResponseWriter, r *http.Request) ([]Fault, error) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAdminBody))
	if err != nil {
		return nil, fmt.Errorf("reading the faults: %w", err)
	}
	const example = `send a fault, such as cut_after 3 or {"fault": "silence", "rate": 0.25}, or a list of them in JSON`
	var faults []Fault
	switch text := strings.TrimSpace(string(data)); {
	case text == "":
		err = errors.New("the body is empty; " + example)
	case text[0] == '[':
		err = json.Unmarshal(data, &faults)
	case text[0] == '{', text[0] == '"':
		faults = make([]Fault, 1)
		err = json.Unmarshal(data, &faults[0])
	case json.Valid(data):
		err = errors.New("the body is neither a fault nor a list; " + example)
	default:
		faults = []Fault{{Fault: text}}
	}
	if err != nil {
		return nil, fmt.Errorf("reading the faults: %w", err)
	}
	_, err = newRules(faults, time.Time{})
	return faults, err
}

// serverState is a server as the admin route tells it.
type serverState struct {
	Name   string      `json:"name"`
	Model  string      `json:"model"`
	SetBy  string      `json:"set_by"` // admin or configuration
	Faults []ruleState `json:"faults"`

	// All of these count requests that generate, since the server was made.
	Requests   int64 `json:"requests"`
	Open       int64 `json:"open"`
	Hit        int64 `json:"hit"`           // had a fault
	ByHeader   int64 `json:"hit_by_header"` // of these, by their own header
	ClientLeft int64 `json:"client_left"`   // were given up before the answer's end
}

// plainFault is a Fault whose JSON has more fields around it.
type plainFault Fault

type ruleState struct {
	plainFault
	Asked int64 `json:"asked"`
	Hit   int64 `json:"hit"`

	// LoadingEnds is when a server that loads for a while has loaded.
	LoadingEnds *time.Time `json:"loading_ends,omitempty"`
}

func (s *server) state() serverState {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &s.faults
	st := serverState{
		Name: s.options.name, Model: s.options.model, SetBy: "configuration", Faults: []ruleState{},
		Requests: f.requests, Open: f.open, Hit: f.hit, ByHeader: f.byHeader, ClientLeft: f.left,
	}
	rules := f.live
	if f.set {
		st.SetBy = "admin"
	} else {
		// While a configuration takes over from another, both have doors here.
		for _, door := range slices.Backward(f.doors) {
			for _, r := range door {
				if !slices.Contains(rules, r) {
					rules = append(rules, r)
				}
			}
		}
	}
	for _, r := range rules {
		rs := ruleState{plainFault: plainFault(r.Fault), Asked: r.asked.Load(), Hit: r.hits.Load()}
		if r.what.kind == faultLoading && r.what.wait > 0 {
			ends := r.since.Add(r.what.wait)
			rs.LoadingEnds = &ends
		}
		st.Faults = append(st.Faults, rs)
	}
	return st
}

// Interface guards
var _ caddy.AdminRouter = admin{}
