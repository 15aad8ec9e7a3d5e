package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

const (
	// poolsPath is where package health's admin module answers.
	poolsPath = "/llmlb/pools"

	// patience bounds one question to the admin API, which answers from memory.
	patience = 10 * time.Second

	// maxAnswer bounds what is read of the answer: a thousand servers take
	// about half a megabyte.
	maxAnswer = 32 << 20
)

// adminAddress returns where the running Caddy takes questions: at the address
// given, or where the configuration file says, or at Caddy's default. A
// configuration without an admin API is an error: at the default address there
// may be another Caddy, whose pools would be taken for this one's.
func adminAddress(address, configFile, adapter string) (string, error) {
	if address != "" || configFile == "" {
		return caddycmd.DetermineAdminAPIAddress(address, nil, "", "")
	}
	config, _, _, err := caddycmd.LoadConfig(configFile, adapter)
	if err != nil {
		return "", err
	}
	var c struct {
		Admin struct {
			Disabled bool `json:"disabled"`
		} `json:"admin"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return "", fmt.Errorf("reading %s: %w", configFile, err)
	}
	if c.Admin.Disabled {
		return "", fmt.Errorf("admin is off in %s: a Caddy with this configuration cannot be asked; "+
			"remove 'admin off' and restart it, or name another Caddy with --address", configFile)
	}
	return caddycmd.DetermineAdminAPIAddress("", config, configFile, adapter)
}

// fetchPools asks the admin API at the address for the pools and returns its
// JSON. The errors say what to do about them.
func fetchPools(ctx context.Context, address string) ([]byte, error) {
	type answer struct {
		body []byte
		err  error
	}
	// Caddy's client takes no context and has no deadline of its own, so the
	// question runs beside us and may be left behind.
	done := make(chan answer, 1)
	go func() {
		body, err := ask(address)
		done <- answer{body, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case a := <-done:
		return a.body, a.err
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return nil, fmt.Errorf("the admin API at %s did not answer within %s", address, patience)
		}
		return nil, ctx.Err()
	}
}

func ask(address string) ([]byte, error) {
	resp, err := caddycmd.AdminAPIRequest(address, http.MethodGet, poolsPath, nil, nil)
	if err != nil {
		// AdminAPIRequest tells a status only in its text.
		if strings.Contains(err.Error(), "HTTP 404") {
			return nil, fmt.Errorf("the Caddy at %s has no %s: it was built without this module", address, poolsPath)
		}
		if strings.HasPrefix(err.Error(), "caddy responded with error") {
			return nil, fmt.Errorf("asking the admin API at %s: %w", address, err)
		}
		return nil, fmt.Errorf("asking the admin API at %s: %w; is Caddy running there? "+
			"--address names another place, --config the file it was started with", address, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API at %s: %w", address, err)
	}
	return body, nil
}
