package status

import (
	"net/http"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// pools answers with the pools as GET /llmlb/pools of the admin API does, without
// addresses unless they are to be shown.
func (h *Handler) pools(w http.ResponseWriter, r *http.Request) error {
	if !allow(w, r, http.MethodGet, http.MethodHead) {
		return nil
	}
	if r.URL.RawQuery != "" {
		refuse(w, r, http.StatusBadRequest, "unknown_parameter", "no parameters are known here; all pools of the page are listed")
		return nil
	}
	now := time.Now()
	all := []shownPool{} // no pool is an empty list, not null
	llmlb.Pools(func(p *llmlb.Pool) {
		if h.shows(p.Name()) {
			all = append(all, h.shown(p.Status(now)))
		}
	})
	return reply(w, http.StatusOK, all)
}

// shownPool and shownEndpoint hide the field of the same name in what they embed.
type shownPool struct {
	llmlb.PoolStatus
	Endpoints []shownEndpoint `json:"endpoints"`
}

type shownEndpoint struct {
	llmlb.EndpointStatus
	Address string `json:"address,omitempty"`
}

func (h *Handler) shown(p llmlb.PoolStatus) shownPool {
	s := shownPool{PoolStatus: p, Endpoints: make([]shownEndpoint, len(p.Endpoints))}
	for i := range p.Endpoints {
		s.Endpoints[i] = h.shownEndpoint(p.Endpoints[i])
	}
	return s
}

func (h *Handler) shownEndpoint(e llmlb.EndpointStatus) shownEndpoint {
	s := shownEndpoint{EndpointStatus: e}
	if h.Addresses {
		s.Address = e.Address
	} else {
		s.Reason = nameless(e.Reason, e.Name, e.Address)
	}
	return s
}
