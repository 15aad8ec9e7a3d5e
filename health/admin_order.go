package health

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// maxOrder bounds the body of an order, in bytes.
	maxOrder = 4 << 10

	// maxLimit bounds how long a drain may be given.
	maxLimit = 30 * 24 * time.Hour
)

// readOrder reads an order to drain, from the query or from a body in JSON:
//
//	{"limit": "10m", "cut": true}
//
// Both are optional. What is misspelt is an error: ignored, an order without a
// limit would stand for one with it.
func readOrder(r *http.Request) (llmlb.DrainOrder, error) {
	var o llmlb.DrainOrder
	body, err := io.ReadAll(io.LimitReader(r.Body, maxOrder+1))
	switch {
	case err != nil:
		return o, fmt.Errorf("reading the body: %w", err)
	case len(body) > maxOrder:
		return o, fmt.Errorf("the body is longer than %d bytes", maxOrder)
	}
	switch body = bytes.TrimSpace(body); {
	case len(body) > 0 && r.URL.RawQuery != "":
		return o, errors.New("the order is both in the query and in the body; have one of them")
	case len(body) > 0:
		return orderOfBody(body)
	}
	return orderOfQuery(r.URL.RawQuery)
}

func orderOfBody(body []byte) (o llmlb.DrainOrder, err error) {
	var said struct {
		Limit caddy.Duration `json:"limit"` // a number is nanoseconds, as everywhere in Caddy
		Cut   bool           `json:"cut"`
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&said); err != nil {
		return o, fmt.Errorf("reading the body: %w; have {\"limit\": \"<duration>\", \"cut\": <bool>}", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("reading the body: something follows the order")
	}
	return checked(time.Duration(said.Limit), said.Cut)
}

func orderOfQuery(query string) (o llmlb.DrainOrder, err error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return o, fmt.Errorf("reading the query: %w", err)
	}
	var limit time.Duration
	var cut bool
	for key, v := range values {
		switch {
		case key != "limit" && key != "cut":
			return o, fmt.Errorf("unknown parameter %q; have cut, limit", key)
		case len(v) > 1:
			return o, fmt.Errorf("parameter %q is given %d times", key, len(v))
		case key == "limit":
			if limit, err = caddy.ParseDuration(v[0]); err != nil {
				return o, fmt.Errorf("parameter \"limit\" is %q; have a duration such as 10m", v[0])
			}
		default:
			if cut, err = strconv.ParseBool(v[0]); err != nil {
				return o, fmt.Errorf("parameter \"cut\" is %q; have true or false", v[0])
			}
		}
	}
	return checked(limit, cut)
}

func checked(limit time.Duration, cut bool) (llmlb.DrainOrder, error) {
	if limit < 0 || limit > maxLimit {
		return llmlb.DrainOrder{}, fmt.Errorf("the limit is %s; have 0 for none, or up to %s", limit, maxLimit)
	}
	return llmlb.DrainOrder{Limit: limit, Cut: cut}, nil
}

// bare refuses what comes with a request that takes nothing: who sends it means
// something by it.
func bare(r *http.Request) error {
	if r.URL.RawQuery != "" {
		return errors.New("no parameters are known here")
	}
	if n, _ := io.ReadFull(r.Body, make([]byte, 1)); n > 0 {
		return errors.New("no body is expected here")
	}
	return nil
}
