package loadgen

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// Scenario is what to send: from flags, a JSON file, or both.
type Scenario struct {
	// Model is the model asked for. Default: none, which most servers refuse
	// unless a gateway fills it in.
	Model string `json:"model,omitempty"`

	// API is "chat" or "completions". Default: chat.
	API string `json:"api,omitempty"`

	// Duration is how long requests are begun. Default: 30s, or 10m where only
	// Requests is given.
	Duration Duration `json:"duration,omitempty"`

	// Requests ends the run earlier, after so many. Default: 100,000.
	Requests int `json:"requests,omitempty"`

	// Rate makes an open loop of so many arrivals a second. Default: none, a
	// closed loop.
	Rate Rate `json:"rate,omitzero"`

	// Ramp is how long the load takes to come to full strength: from 0 or from the
	// first number of Rate, and in a closed loop client by client. Default: 0.
	Ramp Duration `json:"ramp,omitempty"`

	// MaxOpen bounds the open requests of an open loop; what arrives beyond counts
	// as offered and failed. Default: 2,000.
	MaxOpen int `json:"max_open,omitempty"`

	// Clients is how many send one request after the other. Default: 20.
	Clients int `json:"clients,omitempty"`

	// Think is the mean of the exponential pause between an answer and the
	// client's next request. Default: 0.
	Think Duration `json:"think,omitempty"`

	// Tenants is how many tenants there are, tenant-1 and on. Default: 0, none.
	Tenants int `json:"tenants,omitempty"`

	// TenantHeader is the header that names the tenant, with {tenant} for its
	// name. Default: "X-Tenant: {tenant}".
	TenantHeader string `json:"tenant_header,omitempty"`

	// Timeout bounds each request from its sending to its last byte. Default: 2m.
	Timeout Duration `json:"timeout,omitempty"`

	// Seed makes the same plan each time. Default: one by chance, since prompts
	// that were sent before are in the servers' caches.
	Seed uint64 `json:"seed,omitempty"`

	// IgnoreEOS asks vLLM and SGLang to generate all of the output tokens.
	IgnoreEOS bool `json:"ignore_eos,omitempty"`

	// Headers go with every request, "Name: value".
	Headers []string `json:"headers,omitempty"`

	// Class holds what applies where a class says nothing.
	Class

	// Classes are kinds of requests beside each other. Default: one of all.
	Classes []Class `json:"classes,omitempty"`
}

// Class is one kind of requests.
type Class struct {
	// Name is how reports call it.
	Name string `json:"name,omitempty"`

	// Share is its part of the arrivals, or of the clients of a closed loop,
	// against the shares of the others. Default: 1.
	Share float64 `json:"share,omitempty"`

	// Header is one more header of its requests, "Name: value".
	Header string `json:"header,omitempty"`

	// Tenant is the one that all its requests are for, rather than one of Tenants.
	Tenant string `json:"tenant,omitempty"`

	// Input is how many tokens a request's own text has, Output how many are asked
	// for. Default: 512 and 128.
	Input  Size `json:"input,omitzero"`
	Output Size `json:"output,omitzero"`

	// Prefixes is how many beginnings the requests share, chosen by Zipf's law,
	// each PrefixTokens long. Default: 0, none, and 1,024.
	Prefixes     int `json:"prefixes,omitempty"`
	PrefixTokens int `json:"prefix_tokens,omitempty"`

	// Turns is how many turns a conversation of a closed loop has; each repeats
	// what was said before and adds Input. Default: 1.
	Turns int `json:"turns,omitempty"`

	// SLOTTFT and SLOTPOT are the longest time to first token, and the longest
	// mean time between two, that make a finished request a good one. Default: 2s
	// and 100ms.
	SLOTTFT Duration `json:"slo_ttft,omitempty"`
	SLOTPOT Duration `json:"slo_tpot,omitempty"`
}

// Duration is a time.Duration that is written as 1m30s.
type Duration time.Duration

// UnmarshalText reads what time.ParseDuration does.
func (d *Duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return err
	}
	*d = Duration(parsed)
	return nil
}

// MarshalText writes it as time.Duration does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

const (
	chat        = "chat"
	completions = "completions"
)

// Bounds of a scenario: reports have a line for each class and tenant, and the
// text of a request is held in memory.
const (
	manyRequests = 100_000 // unless told otherwise

	maxClasses  = 32
	maxTenants  = 1000
	maxClients  = 50_000
	maxTurns    = 100
	maxTokens   = 2_000_000
	maxRate     = 100_000
	maxPrefixes = 100_000
)

// readScenario reads a JSON file; "-" is standard input.
func readScenario(name string) (s Scenario, err error) {
	raw, err := readFile(name)
	if err != nil {
		return s, fmt.Errorf("reading the scenario: %w", err)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&s); err != nil {
		return s, fmt.Errorf("reading the scenario %q: %w", name, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return s, fmt.Errorf("reading the scenario %q: more follows after the object", name)
	}
	return s, nil
}

func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(io.LimitReader(os.Stdin, 1<<20))
	}
	return os.ReadFile(name)
}
