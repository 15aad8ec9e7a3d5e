package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("peers", flag.ExitOnError)
	rounds := flags.Int("rounds", 15, "rounds of each cell; all sides are measured once in each")
	warmUp := flags.Int("warm-up", 256, "requests that each program decides on before it is measured; fewer where they take long")
	seed := flags.Uint64("seed", 1, "of prompts and intervals")
	file := flags.String("json", "", "file to write the result to")
	apis := flags.String("api", chat, "dialects: "+chat+", "+completions)
	endpoints := flags.String("endpoints", "2,8,64,256,1000", "sizes of the pool")
	prompts := flags.String("prompts", "1,32,400", "lengths of the prompts in KB")
	goroutines := flags.String("goroutines", "1,16", "how many decide at once")
	_ = flags.Parse(args) // exits by itself

	cells, err := cellsOf(strings.Split(*apis, ","), *goroutines, *endpoints, *prompts)
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	r := newResult(*rounds, *seed)
	var stopped error
measuring:
	for i, c := range cells {
		select {
		case <-stop:
			stopped = fmt.Errorf("stopped before cell %d of %d", i+1, len(cells))
			break measuring
		default:
		}
		began := time.Now()
		b, err := newBench(c, loads(c.Endpoints), *seed+uint64(i), *warmUp)
		if err != nil {
			return err
		}
		samples, err := b.run(*rounds)
		if err != nil {
			return err
		}
		r.add(b, samples)
		fmt.Fprintf(os.Stderr, "%d/%d %s: %v\n", i+1, len(cells), c, time.Since(began).Round(100*time.Millisecond))
	}
	r.table(os.Stdout)
	if err := r.write(*file); err != nil {
		return err
	}
	return stopped
}

// write writes the result as JSON to the file, if one is named.
func (r *result) write(file string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the result: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", file, err)
	}
	return nil
}

// cellsOf returns the product of all lists.
func cellsOf(apis []string, goroutines, endpoints, prompts string) ([]cell, error) {
	gs, err := numbers(goroutines, 1)
	if err != nil {
		return nil, fmt.Errorf("reading -goroutines: %w", err)
	}
	es, err := numbers(endpoints, 2) // one of the peers decides nothing for a pool of one
	if err != nil {
		return nil, fmt.Errorf("reading -endpoints: %w", err)
	}
	ps, err := numbers(prompts, 1)
	if err != nil {
		return nil, fmt.Errorf("reading -prompts: %w", err)
	}
	var cells []cell
	for _, api := range apis {
		if api != chat && api != completions {
			return nil, fmt.Errorf("reading -api: unknown dialect %q; have %s, %s", api, chat, completions)
		}
		for _, g := range gs {
			for _, e := range es {
				for _, p := range ps {
					cells = append(cells, cell{API: api, Endpoints: e, PromptKB: p, Goroutines: g})
				}
			}
		}
	}
	return cells, nil
}

func numbers(list string, least int) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		if n < least {
			return nil, fmt.Errorf("%d is less than %d", n, least)
		}
		all = append(all, n)
	}
	return all, nil
}
