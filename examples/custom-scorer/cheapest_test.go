package customscorer

import (
	"math"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// named returns an endpoint with the name.
func named(t *testing.T, name string) *llmlb.Endpoint {
	t.Helper()
	s := &llmlb.Settings{Members: []llmlb.Member{{Address: "10.4.0.11:8000", Name: name}}}
	if err := llmlb.NewPool("test").Bind(s); err != nil {
		t.Fatal(err)
	}
	return s.Members[0].Endpoint
}

func read(lines string) (*Cheapest, error) {
	c := new(Cheapest)
	if err := c.UnmarshalCaddyfile(caddyfile.NewTestDispenser("cheapest {\n" + lines + "\n}")); err != nil {
		return nil, err
	}
	return c, c.Provision(caddy.Context{})
}

func TestPricesBecomeScores(t *testing.T) {
	c, err := read("own 0.50\nrented 2\nspot 1")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{"own": 1, "spot": 0.5, "rented": 0.25, "new": 1.75 / 3} {
		v := &llmlb.View{Endpoint: named(t, name)}
		if got := c.Score(new(llmlb.Call), v); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s gets %v, want %v", name, got, want)
		}
	}
}

func TestBadPrices(t *testing.T) {
	for lines, want := range map[string]string{
		"":             "at least one endpoint",
		"own":          "wrong argument count",
		"own much":     "price 'much' of endpoint 'own'",
		"own 0":        `price 0 of endpoint "own"`,
		"own -1":       `price -1 of endpoint "own"`,
		"own NaN":      `price NaN of endpoint "own"`,
		"own 1\nown 2": "two prices",
	} {
		if _, err := read(lines); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			t.Errorf("%q: got %v, want something with %q", lines, err, want)
		}
	}
}
