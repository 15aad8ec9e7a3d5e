package main

import (
	"fmt"
	"strings"

	"github.com/caddy-llmlb/caddy-llmlb/engine"
	"github.com/caddy-llmlb/caddy-llmlb/selection"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/baseline"
	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

const usage = `llmlb-sim replays requests against simulated inference servers, in virtual time,
and tells what users would have felt under one routing strategy or another.

  llmlb-sim -trace requests.jsonl.gz
        under the default strategy, on eight servers

  llmlb-sim -trace requests.jsonl.gz -speed 2 -strategy all
        twice as fast as it came, under every strategy, the best first

  llmlb-sim -trace requests.jsonl.gz -capacity -strategy work,llmd,ideal
        how many times the trace's rate each can carry within the SLO

  llmlb-sim -trace requests.csv -engine 4*8b-h100,4*8b-a100 -scrape 5s -html report.html
        two kinds of servers, and a page with plots

  llmlb-sim -gen multiturn -rate 2 -turns 8 -think 20s -json
        conversations that are made up, and the numbers as JSON

What is replayed
  -trace FILE       a trace, gzip or not
  -format NAME      %s (default: what its first line looks like)
  -gen NAME         a workload that is made up: %s
  -first D          only what arrives before D, in the trace's time
  -dither D         put each arrival off by something between 0 and D, in the trace's
                    time: for traces with a coarse clock, whose requests come in bursts
  -speed N          so many times as fast as it came (default 1)

What shapes a workload that is made up; 0 is the generator's default
  -rate R           arrivals a second: of requests, or of conversations (multiturn)
  -requests N       how many of them
  -system N         tokens of the system prompt (gsp, multiturn)
  -context N        tokens that a tenant's users share (b2b)
  -question N       tokens of each question
  -output N         tokens of each answer; their mean (multiturn)
  -groups N         different system prompts (gsp, multiturn)
  -tenants N, -users N
                    tenants, and users of each (b2b)
  -fresh            users ask something new each time (b2b)
  -warm-rate R      first one request of each user at this rate, not measured (b2b)
  -turns N          mean turns of a conversation (multiturn)
  -think D          mean time from an answer to the next question (multiturn)
  -sigma X          spread of lengths (multiturn)
  -max-context N    most tokens of a prompt and its answer (multiturn)

The pool
  -engine NAME      %s
                    (default 8b-h100); unequal ones as 4*8b-h100,4*8b-a100
  -replicas N       servers (default 8)
  -kv N             tokens of each server's KV memory (default: the engine's)
  -attention N      multiply what attention costs by N (default 1)
  -overhead D       what a server's HTTP front adds (default 0s)

Routing
  -strategy LIST    names separated by commas, or all (default work)
                    %s
                    and those of others:
%s
                    %s before one of these shows it what is true, ideal is the
                    best pool there could be, with one store of prefixes as large
                    as all caches together, and ideal_infinite has one without limit
  -oracle           show all baselines what is true
  -gateways N       gateways that know nothing of each other (default 1)
  -scrape D         time between two scrapes of a server (default: what is published
                    of a baseline, else 1s)
  -lag D            how old a scrape's numbers are (default 0s)
  -max-wait D       refuse requests that have waited so long in a gateway that has a
                    queue (default 0s: never)

What is measured
  -slo-ttft D       time to first token that is good enough (default 5s)
  -slo-tpot D       mean time per further token that is good enough (default 100ms)
  -capacity         find the highest multiple of the trace's rate at which 95 %% of all
                    offered requests meet both, to 0.5 %%, and what part it is of the
                    ideal pool's
  -seed N           for all that is left to chance (default 1)
  -seeds N          so many runs with seeds from -seed on, and the median of each
                    number (default 1)

Output
  -json             a JSON array of objects, one for each strategy, in their order
  -html FILE        write a page with plots besides
  -quiet            no progress bar
  -cpuprofile FILE  write where the simulator spends its time, for go tool pprof

The exit code is 0, 1 if something could not be read, simulated or written, and 2
if the options make no sense.
`

func help() string {
	var baselines strings.Builder
	for i, name := range baseline.Names() {
		if i > 0 {
			baselines.WriteByte('\n')
		}
		fmt.Fprintf(&baselines, "                      %-15s %s", name, baseline.Info(name))
	}
	return fmt.Sprintf(usage, strings.Join(trace.Formats(), ", "), strings.Join(trace.Generators(), ", "),
		strings.Join(engine.PresetNames(), ", "), strings.Join(selection.Strategies(), ", "), baselines.String(), baseline.Oracle)
}
