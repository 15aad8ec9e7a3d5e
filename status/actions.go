package status

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// maxOrder bounds the body of an action.
	maxOrder = 4 << 10

	// orderTime bounds how long the body may take to come.
	orderTime = 5 * time.Second

	// maxNames bounds how many names an error lists.
	maxNames = 20
)

// order is the body of an action: which endpoint of which pool.
type order struct {
	Pool     string `json:"pool"`
	Endpoint string `json:"endpoint"`
}

// act has an endpoint drain or resume.
//
//	POST …/drain   {"pool": "<name>", "endpoint": "<name>"}
//	POST …/resume
//
// The body is read only when everything else about the request is right.
func (h *Handler) act(w http.ResponseWriter, r *http.Request, what string) error {
	if !allow(w, r, http.MethodPost) {
		return nil
	}
	if code, message := h.mayAct(r); code != "" {
		h.logger.Warn("an action was refused", append(who(r), zap.String("action", what), zap.String("reason", code))...)
		refuse(w, r, http.StatusForbidden, code, message)
		return nil
	}
	o, status, err := readOrder(w, r)
	if err != nil {
		refuse(w, r, status, "bad_order", err.Error())
		return nil
	}
	e, err := h.endpoint(o)
	if err != nil {
		refuse(w, r, http.StatusNotFound, "not_found", err.Error())
		return nil
	}
	now := time.Now()
	fields := append(who(r), zap.String("pool", o.Pool), zap.String("endpoint", e.Name()), zap.String("address", e.Address()))
	if what == "drain" {
		e.Drain(now, llmlb.DrainOrder{})
		h.logger.Info("drained from the status page", fields...)
	} else {
		if err := e.Resume(now); err != nil {
			refuse(w, r, http.StatusConflict, "not_resumed", err.Error())
			return nil
		}
		h.logger.Info("resumed from the status page", fields...)
	}
	// Every open page sees it now, not only with the next look.
	watch := acquireWatch()
	defer releaseWatch()
	watch.refresh(now)
	p := e.Pool()
	p.Lock()
	state, reason, _ := e.State(now)
	p.Unlock()
	return reply(w, http.StatusOK, map[string]string{
		"pool": o.Pool, "endpoint": e.Name(), "state": state.String(), "reason": nameless(reason, e.Name(), e.Address()),
	})
}

// mayAct says why the request may not act, or nothing if it may.
func (h *Handler) mayAct(r *http.Request) (code, message string) {
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case !h.AllowActions:
		return "actions_off", "this page only shows; 'allow_actions' in the block of llm_status allows its buttons"
	case site == "":
		return "no_fetch_site", "the browser did not say where the request comes from, which it does only over HTTPS and at localhost: open the page there"
	case site != "same-origin":
		return "cross_site", "the request comes from another site; only the page itself may send it"
	case !validToken(r.Header.Get(tokenHeader)):
		return "bad_token", "the page is from before Caddy's last start: reload it"
	}
	return "", ""
}

// who says in the log who asks: the address, that of the client behind trusted
// proxies, and the user if an authentication has told one.
func who(r *http.Request) []zap.Field {
	fields := []zap.Field{zap.String("remote_addr", r.RemoteAddr)}
	if ip, ok := caddyhttp.GetVar(r.Context(), caddyhttp.ClientIPVarKey).(string); ok {
		fields = append(fields, zap.String("client_ip", ip))
	}
	if repl, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer); ok {
		if user, ok := repl.GetString("http.auth.user.id"); ok && user != "" {
			fields = append(fields, zap.String("user", user))
		}
	}
	return fields
}

func readOrder(w http.ResponseWriter, r *http.Request) (o order, status int, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return o, http.StatusUnsupportedMediaType, errors.New("the body must be application/json")
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(orderTime))
	defer func() { _ = control.SetReadDeadline(time.Time{}) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxOrder))
	if err != nil {
		return o, http.StatusBadRequest, fmt.Errorf("reading the body, of at most %d bytes: %w", maxOrder, err)
	}
	if o, err = parseOrder(body); err != nil {
		return o, http.StatusBadRequest, err
	}
	return o, 0, nil
}

// parseOrder reads {"pool": …, "endpoint": …}, and nothing else.
func parseOrder(body []byte) (o order, err error) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		return order{}, fmt.Errorf("reading the order: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return order{}, errors.New("reading the order: there is something behind it")
	}
	if o.Pool == "" || o.Endpoint == "" {
		return order{}, errors.New("the order must name a pool and an endpoint")
	}
	return o, nil
}

// endpoint finds the endpoint by its name, or says which there are.
func (h *Handler) endpoint(o order) (*llmlb.Endpoint, error) {
	p := h.find(o.Pool)
	if p == nil {
		return nil, fmt.Errorf("there is no pool %q here", o.Pool)
	}
	var names []string
	st := statusOf(p, time.Now())
	for i := range st.Endpoints {
		if st.Endpoints[i].Name != o.Endpoint {
			names = append(names, st.Endpoints[i].Name)
			continue
		}
		for _, e := range p.Endpoints() {
			if e.Address() == st.Endpoints[i].Address {
				return e, nil
			}
		}
	}
	if n := len(names) - maxNames; n > 0 {
		names = append(names[:maxNames], fmt.Sprintf("and %d more", n))
	}
	return nil, fmt.Errorf("there is no endpoint %q in pool %q; have %s", o.Endpoint, o.Pool, strings.Join(names, ", "))
}
