package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

const (
	// poolsPath and explainPath are where package health's admin module answers.
	poolsPath   = "/llmlb/pools"
	explainPath = "/llmlb/explain"

	// patience bounds one question to the admin API, which answers from memory.
	patience = 10 * time.Second

	// maxAnswer bounds what is read of the answer: a thousand servers take
	// about half a megabyte.
	maxAnswer = 32 << 20
)

// addressFlags adds the flags that adminAddress goes by.
func addressFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.String("address", "", "Address of the admin API, if not the default")
	flags.StringP("config", "c", "", "Configuration file that says where the admin API is")
	flags.StringP("adapter", "a", "", "Name of config adapter to apply (when --config is used)")
}

// withAdmin runs what a command does with the admin API at its address, until it
// is done or interrupted.
func withAdmin(fl caddycmd.Flags, do func(ctx context.Context, address string) error) (int, error) {
	address, err := adminAddress(fl.String("address"), fl.String("config"), fl.String("adapter"))
	if err != nil {
		return caddy.ExitCodeFailedStartup, fmt.Errorf("finding the admin API: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err = do(ctx, address)
	if end, ok := errors.AsType[*ending](err); ok {
		return end.code, err
	}
	if err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
}

// ending is an error with an exit code of its own.
type ending struct {
	code int
	text string
}

func (e *ending) Error() string { return e.text }

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

// fetch asks the admin API at the address for the path, with its query if it has
// one, and returns the JSON. The errors say what to do about them.
func fetch(ctx context.Context, address, path string) ([]byte, error) {
	return send(ctx, address, http.MethodGet, path, nil)
}

// send does so with any method, and a body in JSON if there is one.
func send(ctx context.Context, address, method, path string, body []byte) ([]byte, error) {
	type answer struct {
		body []byte
		err  error
	}
	// Caddy's client takes no context and has no deadline of its own, so the
	// question runs beside us and may be left behind.
	done := make(chan answer, 1)
	go func() {
		said, err := ask(address, method, path, body)
		done <- answer{said, err}
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

func ask(address, method, path string, body []byte) ([]byte, error) {
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	resp, err := caddycmd.AdminAPIRequest(address, method, path, nil, reader)
	if err != nil {
		return nil, refused(address, path, err)
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, fmt.Errorf("reading the answer of the admin API at %s: %w", address, err)
	}
	return body, nil
}

// notThere is the error of asking for a pool or server that there is none of.
type notThere string

func (e notThere) Error() string { return string(e) }

// refused says what an error of AdminAPIRequest means, which tells a status and
// the admin API's message only in its text.
func refused(address, path string, err error) error {
	path, _, _ = strings.Cut(path, "?")
	text, answered := strings.CutPrefix(err.Error(), "caddy responded with error: ")
	if !answered {
		return fmt.Errorf("asking the admin API at %s: %w; is Caddy running there? "+
			"--address names another place, --config the file it was started with", address, err)
	}
	status, body, _ := strings.Cut(text, ": ")
	var told struct {
		Error string `json:"error"`
	}
	_ = json.Unmarshal([]byte(body), &told) // what is not JSON tells nothing
	switch {
	case status == "HTTP 404" && strings.HasPrefix(told.Error, "no such resource"):
		return fmt.Errorf("the Caddy at %s has no %s: it runs an older version of this module", address, path)
	case status == "HTTP 404" && strings.HasPrefix(told.Error, "there is no "):
		return notThere(told.Error)
	case (status == "HTTP 400" || status == "HTTP 409") && told.Error != "":
		return errors.New(told.Error)
	case status == "HTTP 404":
		return fmt.Errorf("the Caddy at %s has no %s: it was built without this module", address, path)
	default:
		return fmt.Errorf("asking the admin API at %s: %w", address, err)
	}
}
