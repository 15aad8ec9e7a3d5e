package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

func main() {
	ctx, stop := command.Interruptible("peers: stopping when this cell is done…")
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
	}
	os.Exit(command.Status(err))
}

func run(ctx context.Context, args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	file, err := command.Open("-json", o.json)
	if err != nil {
		return err
	}
	defer file.Close()
	r := newResult(o.rounds, o.seed)
	var stopped error
	for i, c := range o.cells {
		if ctx.Err() != nil {
			stopped = fmt.Errorf("%w after %d of %d cells", command.ErrInterrupted, i, len(o.cells))
			break
		}
		began := time.Now()
		b, err := newBench(c, loads(c.Endpoints), o.seed+uint64(i), o.warmUp)
		if err != nil {
			return err
		}
		samples, err := b.run(o.rounds)
		if err != nil {
			return err
		}
		r.add(b, samples)
		fmt.Fprintf(os.Stderr, "%d/%d %s: %v\n", i+1, len(o.cells), c, time.Since(began).Round(100*time.Millisecond))
	}
	if len(r.Cells) == 0 {
		return stopped
	}
	r.table(os.Stdout)
	if file != nil {
		err = file.Write(r.write)
	}
	return errors.Join(stopped, err)
}

// write writes the result as JSON.
func (r *result) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
