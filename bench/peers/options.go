package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/bench/command"
)

// options are the command line's.
type options struct {
	rounds, warmUp int
	seed           uint64
	json           string
	cells          []cell
}

const usageText = `peers measures what one decision costs, in process and on the same input: where does
this request go? It compares the strategy "work" with the prefix-cache router of the
AIBrix gateway and the scheduler of the Gateway API Inference Extension (GIE), by their
own code.

usage: cd bench/peers && go run . [flags]

It uses no network. For each cell (dialect, number of goroutines, endpoints, length of
the prompt) it says when that is done, and prints a table of all at the end: µs per
pick, allocations, and how many times ours each peer takes, with an interval of 95 %. A
cell takes up to a quarter of a minute, and all 30 some five minutes on two cores; the
first time what the peers need is fetched and compiled, which takes minutes, too.
Nothing else should keep the machine busy. Ctrl-C ends it with the table of what is
finished.

examples:
  go run . -json result.json                                     every cell
  go run . -rounds 3 -endpoints 2,64 -prompts 1,32               a first look
  go run . -goroutines 16 -api completions -endpoints 1000       where locks show

`

// What may be asked for. A machine's memory ends somewhere, and garbage is not
// collected while the clock runs.
const (
	mostRounds     = 1000
	mostWarmUp     = 100_000
	mostEndpoints  = 4096
	mostPromptKB   = 1024
	mostGoroutines = 256
	mostBatchKB    = 16 << 10 // of prompts that are decided on at once
)

func parse(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.IntVar(&o.rounds, "rounds", 15, fmt.Sprintf("the `number` of rounds of each cell, 1 to %d; all sides are measured once in each", mostRounds))
	f.IntVar(&o.warmUp, "warm-up", 256, "the `number` of requests that each program decides on before it is measured; fewer where they take long")
	f.Uint64Var(&o.seed, "seed", 1, "a `number` from which prompts and intervals are drawn")
	f.StringVar(&o.json, "json", "", "write everything that was measured to this `file`, too")
	apis := f.String("api", chat, "`dialects`: "+chat+", "+completions)
	endpoints := f.String("endpoints", "2,8,64,256,1000", fmt.Sprintf("sizes of the pool, `numbers` from 2 to %d", mostEndpoints))
	prompts := f.String("prompts", "1,32,400", fmt.Sprintf("lengths of the prompts in KB, `numbers` from 1 to %d", mostPromptKB))
	goroutines := f.String("goroutines", "1,16", fmt.Sprintf("how many decide at once, `numbers` from 1 to %d", mostGoroutines))
	err := command.Parse(f, args, func(w io.Writer) {
		fmt.Fprint(w, usageText)
		f.PrintDefaults()
	})
	if err != nil {
		return nil, err
	}
	if o.rounds < 1 || o.rounds > mostRounds {
		return nil, command.Wrong("-rounds %d: there can be 1 to %d", o.rounds, mostRounds)
	}
	if o.warmUp < 0 || o.warmUp > mostWarmUp {
		return nil, command.Wrong("-warm-up %d: it can be 0 to %d", o.warmUp, mostWarmUp)
	}
	o.cells, err = cellsOf(strings.Split(*apis, ","), *goroutines, *endpoints, *prompts)
	return o, err
}

// cellsOf returns the product of all lists.
func cellsOf(apis []string, goroutines, endpoints, prompts string) ([]cell, error) {
	gs, err := numbers("-goroutines", goroutines, 1, mostGoroutines)
	if err != nil {
		return nil, err
	}
	es, err := numbers("-endpoints", endpoints, 2, mostEndpoints) // one of the peers decides nothing for a pool of one
	if err != nil {
		return nil, err
	}
	ps, err := numbers("-prompts", prompts, 1, mostPromptKB)
	if err != nil {
		return nil, err
	}
	var cells []cell
	for _, api := range apis {
		if api != chat && api != completions {
			return nil, command.Wrong("-api: no dialect is called %q; there are %s and %s", api, chat, completions)
		}
		for _, g := range gs {
			for _, e := range es {
				for _, p := range ps {
					c := cell{API: api, Endpoints: e, PromptKB: p, Goroutines: g}
					if batchOf(c)*p > mostBatchKB {
						return nil, command.Wrong("%d goroutines with prompts of %d KB: that is more than %d MB at once", g, p, mostBatchKB>>10)
					}
					cells = append(cells, c)
				}
			}
		}
	}
	return cells, nil
}

// numbers reads the list that an option has.
func numbers(option, list string, least, most int) ([]int, error) {
	var all []int
	for text := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, command.Wrong("%s %s: %q is no number; have numbers with commas between them, as in 1,16", option, list, text)
		}
		if n < least || n > most {
			return nil, command.Wrong("%s %s: %d is not between %d and %d", option, list, n, least, most)
		}
		all = append(all, n)
	}
	return all, nil
}
