package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
)

func runLoad(fl caddycmd.Flags) (int, error) {
	if err := load(fl, os.Stdout, os.Stderr); err != nil {
		return caddy.ExitCodeFailedStartup, err
	}
	return caddy.ExitCodeSuccess, nil
}

// load does all that the command does. The report goes to out, but to notes when
// out is wanted for JSON.
func load(fl caddycmd.Flags, out io.Writer, notes *os.File) error {
	if fl.NArg() != 1 {
		return errors.New("have one target, such as http://127.0.0.1:8080; 'caddy llm-load --help' has examples")
	}
	s, err := scenario(fl)
	if err != nil {
		return err
	}
	url, err := target(fl.Arg(0), s.API)
	if err != nil {
		return err
	}
	if !fl.Bool("yes-remote") {
		looking, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := checkLocal(looking, net.DefaultResolver, url.Hostname()); err != nil {
			return err
		}
	}
	key, err := apiKey(fl.String("api-key-env"))
	if err != nil {
		return err
	}
	files, err := openFiles(fl.String("json"), fl.String("html"), out)
	if err != nil {
		return err
	}
	defer files.close()

	// Ctrl-C ends it early, and the second one at once.
	stop, release := signal.NotifyContext(context.Background(), os.Interrupt)
	defer release()
	context.AfterFunc(stop, release)

	transport := newTransport(fl.Bool("yes-remote"), fl.Bool("insecure"), fl.Bool("http2"), max(s.Clients, s.MaxOpen))
	defer transport.CloseIdleConnections()
	r := newRunner(s, url.String(), key, transport)
	done := make(chan struct{})
	var shown sync.WaitGroup
	shown.Go(func() { r.record.progress(notes, isTerminal(notes), done) })
	r.do(stop)
	close(done)
	shown.Wait()

	report := r.record.report(url.Redacted())
	table := out
	if fl.String("json") == "-" {
		table = notes
	}
	if err := errors.Join(report.WriteTable(table), files.write(report)); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return tooManyFailed(&report.Total, fl.Float64("fail-over"))
}

func tooManyFailed(g *Group, limit float64) error {
	if g.Offered == 0 {
		return errors.New("nothing was sent: no request arrived within the duration")
	}
	if share := 100 * float64(g.Failed()) / float64(g.Offered); share > limit {
		return fmt.Errorf("%d of %d offered requests failed (%.1f%%), more than --fail-over %g", g.Failed(), g.Offered, share, limit)
	}
	return nil
}

func apiKey(variable string) (string, error) {
	if variable == "" {
		return "", nil
	}
	key := os.Getenv(variable)
	if key == "" {
		return "", fmt.Errorf("--api-key-env %q: the environment variable is not set", variable)
	}
	if _, _, err := header("Authorization: Bearer " + key); err != nil {
		return "", fmt.Errorf("--api-key-env %q: the key cannot stand in a header", variable)
	}
	return key, nil
}

// reportFiles are opened before the run, so that a wrong name costs no time.
type reportFiles struct {
	json, html io.Writer
	opened     []*os.File
}

func openFiles(jsonName, htmlName string, out io.Writer) (*reportFiles, error) {
	f := &reportFiles{}
	for _, one := range []struct {
		name string
		to   *io.Writer
	}{{jsonName, &f.json}, {htmlName, &f.html}} {
		switch one.name {
		case "":
		case "-":
			*one.to = out
		default:
			file, err := os.Create(one.name)
			if err != nil {
				f.close()
				return nil, fmt.Errorf("opening the report's file: %w", err)
			}
			f.opened = append(f.opened, file)
			*one.to = file
		}
	}
	return f, nil
}

func (f *reportFiles) write(r *Report) error {
	var errs []error
	if f.json != nil {
		errs = append(errs, r.WriteJSON(f.json))
	}
	if f.html != nil {
		errs = append(errs, r.WriteHTML(f.html))
	}
	return errors.Join(errs...)
}

func (f *reportFiles) close() {
	for _, file := range f.opened {
		_ = file.Close()
	}
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
