package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	_ "github.com/caddyserver/caddy/v2/modules/standard"
	"github.com/spf13/cobra"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// serve answers like an admin API with the body and status given.
func serve(t *testing.T, status int, body string) (address string) {
	t.Helper()
	srv := httptest.NewServer(handler(status, body))
	t.Cleanup(srv.Close)
	return srv.Listener.Addr().String()
}

func handler(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || r.URL.Path != "/llmlb/pools" {
			status = http.StatusTeapot
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

func encoded(t *testing.T, pools ...llmlb.PoolStatus) string {
	t.Helper()
	body, err := json.Marshal(pools)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func at(address string) *view {
	return &view{fetch: func(ctx context.Context) ([]byte, error) { return fetch(ctx, address, poolsPath) }}
}

func TestShowPrintsTheRunningPools(t *testing.T) {
	v := at(serve(t, 200, encoded(t, worked())))
	var b strings.Builder
	if err := v.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	golden(t, "worked_example.txt", b.String())
}

// The admin API may listen on a unix socket, where a browser cannot reach it.
func TestShowOverUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Skipf("unix sockets are not available: %v", err)
	}
	srv := &http.Server{Handler: handler(200, encoded(t, worked())), ReadHeaderTimeout: time.Second}
	go func() { _ = srv.Serve(ln) }()
	defer srv.Close()
	var b strings.Builder
	if err := at("unix/"+path).show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	golden(t, "worked_example.txt", b.String())
}

// Scripts get everything the admin API said, fields of a newer Caddy included.
func TestShowJSONKeepsUnknownFields(t *testing.T) {
	v := at(serve(t, 200, `[{"pool":"a","endpoints":[]},{"pool":"b","endpoints":[],"quota":7}]`))
	v.asJSON, v.pool = true, "b"
	var b strings.Builder
	if err := v.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal([]byte(b.String()), &got); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0]["pool"] != "b" || got[0]["quota"] != 7.0 {
		t.Errorf("got %s", b.String())
	}
}

func TestShowOnePool(t *testing.T) {
	v := at(serve(t, 200, encoded(t, llmlb.PoolStatus{Pool: "embed"}, worked())))
	v.pool = "default"
	var b strings.Builder
	if err := v.show(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	golden(t, "worked_example.txt", b.String())
}

// Every error says what to do next.
func TestShowErrors(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := ln.Addr().String()
	ln.Close()
	for _, tc := range []struct {
		name, address, pool string
		want                []string
	}{
		{"caddy not running", nobody, "", []string{nobody, "is Caddy running", "--address", "--config"}},
		{"caddy without the module", serve(t, 404, ""), "", []string{"built without this module"}},
		{"origin refused", serve(t, 403, `{"error":"host not allowed"}`), "", []string{"HTTP 403", "host not allowed"}},
		{"no pools", serve(t, 200, "[]"), "", []string{"no LLM pool", "llm_proxy"}},
		{"null", serve(t, 200, "null"), "", []string{"no LLM pool"}},
		{"not JSON", serve(t, 200, "<html>"), "", []string{"reading the admin API's answer"}},
		{"unknown pool", serve(t, 200, encoded(t, worked(), llmlb.PoolStatus{Pool: "embed"})), "chat", []string{`"chat"`, "default, embed"}},
		{"bad address", "nonsense://x", "", []string{"nonsense"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := at(tc.address)
			v.pool = tc.pool
			var b strings.Builder
			err := v.show(t.Context(), &b)
			if err == nil {
				t.Fatalf("no error; printed %q", b.String())
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if b.Len() > 0 {
				t.Errorf("printed %q besides the error", b.String())
			}
		})
	}
}

// A watch outlives a restart of Caddy: the error stands where the table was,
// and the table comes back. In a file the tables follow one another.
func TestWatchOutlivesAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turn := 0
		body := encoded(t, llmlb.PoolStatus{Pool: "default"})
		v := view{fetch: func(context.Context) ([]byte, error) {
			turn++
			if turn == 2 {
				return nil, errors.New("gone")
			}
			return []byte(body), nil
		}}
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		var b strings.Builder
		begun := time.Now()
		line := func(after time.Duration) string { return begun.Add(after).Format(time.DateTime) + "\n" }
		v.watch(ctx, &b, time.Second, false)
		want := line(0) + "no servers yet\n\n" + line(time.Second) + "gone\n\n" + line(2*time.Second) + "no servers yet\n"
		if b.String() != want {
			t.Errorf("watch printed %q, want %q", b.String(), want)
		}
	})
}

// An interval of nothing is a mistake, and not a table that is printed once.
func TestWatchNeedsAnInterval(t *testing.T) {
	for _, every := range []string{"0", "0s", "-1s"} {
		cmd := &cobra.Command{SilenceErrors: true, SilenceUsage: true}
		poolCommand.CobraFunc(cmd)
		cmd.SetArgs([]string{"--watch=" + every})
		if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "have an interval above 0") {
			t.Errorf("--watch=%s: %v", every, err)
		}
	}
}

// On a terminal every table replaces the one before, and the line above it
// shows that it is alive.
func TestWatchRedraws(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := encoded(t, llmlb.PoolStatus{Pool: "default"})
		v := view{fetch: func(context.Context) ([]byte, error) { return []byte(body), nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var b strings.Builder
		begun := time.Now()
		v.watch(ctx, &b, time.Second, true)
		screen := func(after time.Duration) string {
			return clearScreen + begun.Add(after).Format(time.DateTime) + ", every 1s\n\nno servers yet\n"
		}
		if want := screen(0) + screen(time.Second); b.String() != want {
			t.Errorf("watch printed %q, want %q", b.String(), want)
		}
	})
}

// A script reads a watch in JSON as one value after the other.
func TestWatchJSONIsNothingButJSON(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		body := encoded(t, llmlb.PoolStatus{Pool: "default"})
		v := view{asJSON: true, fetch: func(context.Context) ([]byte, error) { return []byte(body), nil }}
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		var b strings.Builder
		v.watch(ctx, &b, time.Second, false)
		values := 0
		for dec := json.NewDecoder(strings.NewReader(b.String())); dec.More(); values++ {
			var pools []llmlb.PoolStatus
			if err := dec.Decode(&pools); err != nil {
				t.Fatalf("%v in %q", err, b.String())
			}
		}
		if values != 2 {
			t.Errorf("%d values in %q, want 2", values, b.String())
		}
	})
}

// The configuration says which Caddy is meant. One that has no admin API must
// not lead to whichever Caddy is at the default address.
func TestAdminAddress(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "Caddyfile")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		name, address, config string
		want, wantErr         string
	}{
		{"nothing said", "", "", "localhost:2019", ""},
		{"address", "127.0.0.1:2020", "", "127.0.0.1:2020", ""},
		{"config", "", file("{\n\tadmin 127.0.0.1:2021\n}\n"), "127.0.0.1:2021", ""},
		{"config that says nothing", "", file(":8080\n"), "localhost:2019", ""},
		{"admin off", "", file("{\n\tadmin off\n}\n"), "", "admin is off in "},
		{"address before config", "127.0.0.1:2020", file("{\n\tadmin off\n}\n"), "127.0.0.1:2020", ""},
		{"no such file", "", filepath.Join(t.TempDir(), "Caddyfile"), "", "no such file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := adminAddress(tc.address, tc.config, "")
			if tc.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
					t.Fatalf("got %q, %v; want an error with %q", got, err, tc.wantErr)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

// An admin API that accepts and then says nothing must not hang the command.
func TestFetchGivesUpWithTheContext(t *testing.T) {
	release := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer srv.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fetch(ctx, srv.Listener.Addr().String(), poolsPath); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}
