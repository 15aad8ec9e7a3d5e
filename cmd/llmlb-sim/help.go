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

  llmlb-sim -gen multiturn -rate 2 -requests 1000 -replicas 4 -system 2000 -question 1500 -capacity
        a capacity needs a workload that is heavy and lasts: the defaults of gsp and
        multiturn are too light for eight servers at any speed

  llmlb-sim -gen gsp -seeds 5 -strategy work,llmd,oracle:llmd
        the median of five runs each, llmd also as if it knew everything

N is a number, D a time with its unit such as 500ms, 5s or 10m. What is not within
the limits of an option is refused, and so is what would take days or all memory.

What is replayed: one of -trace and -gen
  -trace FILE       a trace, gzip or not; /dev/stdin is what comes through a pipe
  -format NAME      %s (default: what its first line looks like):
                    mooncake  a JSON object a line: timestamp (ms), input_length,
                              output_length (tokens), hash_ids (of 512 tokens each)
                    azure     CSV: timestamp_ms,input_length,output_length, or
                              TIMESTAMP,ContextTokens,GeneratedTokens
                    servegen  CSV: timestamp_ms,client_id,input_length,output_length
  -gen NAME         a workload that is made up: %s
  -first D          only what arrives before D, in the trace's time
  -dither D         put each arrival off by something between 0 and D, in the trace's
                    time: for traces with a coarse clock, whose requests come in bursts
                    (at most 24h)
  -speed N          so many times as fast as it came, 0.001 to 1000 (default 1)

What shapes a workload that is made up, with the defaults of gsp, b2b and multiturn
(- is what one does not take)
                                                                  gsp   b2b  multiturn
  -rate N           arrivals a second: of requests, or in          16     9          1
                    multiturn of conversations
  -requests N       how many of them, up to 4000000              1024  9000        500
  -system N         tokens of the system prompt; 0 is none       2048     -       1000
  -context N        tokens that a tenant's users share              -  6000          -
  -question N       tokens of each question; their mean           128  1200        150
  -output N         tokens of each answer; their mean             256  1000        350
  -groups N         different system prompts                       64     -          1
  -tenants N        tenants                                         -   150          -
  -users N          users of each tenant                            -     5          -
  -fresh            users ask something new each time               -    no          -
  -warm-rate N      first one request of each user at this          -     0          -
                    rate, not measured; 0 is none
  -turns N          mean turns of a conversation                    -     -          6
  -think D          mean time from an answer to the next            -     -        30s
                    question; 0s is none
  -sigma N          spread of the lengths' logarithms; 0 is         -     -        0.9
                    none
  -max-context N    most tokens of a prompt and its answer          -     -      32000

The pool
  -engine NAME      %s
                    (default 8b-h100); unequal ones as 4*8b-h100,4*8b-a100
  -replicas N       servers, up to 4096 (default 8); not with unequal ones
  -kv N             tokens of each server's KV memory (default: the engine's)
  -block N          tokens of a block of that memory, 1 to 1024 (default 16): whole
                    blocks of a prompt are found in a cache
  -attention N      multiply what attention costs by N, 0.01 to 100 (default 1)
  -overhead D       what a server's HTTP front adds, at most 1h (default 0s)

Routing
  -strategy LIST    names separated by commas, or all (default work)
                    %s
                    and those of others:
%s
                    %s before one of these shows it what is true. ideal places
                    each request where its first token comes earliest, sees what is
                    true, and has one store of prefixes as large as all caches
                    together; that of ideal_infinite is without limit. all leaves out
                    whom the truth tells nothing new
  -oracle           show all baselines of -strategy what is true; with all, leave out
                    those that are not shown it
  -gateways N       gateways that know nothing of each other, up to 4096 (default 1)
  -scrape D         time between two scrapes of a server, at least 1ms (default: what
                    is published of a baseline, else 1s)
  -lag D            how old a scrape's numbers are, at most 1h (default 0s)
  -max-wait D       refuse requests that have waited so long in a gateway that has a
                    queue (default 0s: never)

What is measured
  -slo-ttft D       time to first token that is good enough (default 5s)
  -slo-tpot D       mean time per further token that is good enough (default 100ms)
  -capacity         find the highest multiple of the trace's rate at which 95 %% of all
                    offered requests meet both, to 0.5 %%, and what part it is of the
                    ideal pool's. It takes ten runs or more of each strategy. What is
                    not found is – in the table and null in JSON, with the reason
  -seed N           for all that is left to chance (default 1)
  -seeds N          so many runs with seeds from -seed on, up to 1000, and the median
                    of each number (default 1)

Output
  -json             a JSON array of objects, one for each strategy, in their order
  -html FILE        write a page with plots besides; one that is there is replaced
  -quiet            no progress bar, which otherwise there is on a terminal
  -cpuprofile FILE  write where the simulator spends its time, for go tool pprof

  -help             this text

What the numbers mean, and what they were held against: docs/simulating.md.
The exit code is 0; 1 if something could not be read, simulated or written, or if it
was interrupted; and 2 if the options make no sense.
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
