package loadgen

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	"github.com/spf13/cobra"
)

var command = caddycmd.Command{
	Name:  "llm-load",
	Usage: "<url> [--model <name>] [--clients <n> | --rate <per second>] [--duration <duration>] [--input <tokens>] [--output <tokens>] [--json <file>] [--html <file>]",
	Short: "Sends streaming requests to an LLM server and tells what users would feel",
	Long: `
Sends real streaming requests to a URL, chat completions unless --completions says
otherwise, and measures what a user would feel: time to first token (TTFT), time
between tokens (ITL), time to the end, and goodput, the share of the offered
requests that finished within the SLO. Refused, failed and cut requests are
offered ones, too.

  caddy llm-load http://127.0.0.1:8080 --model sim
        20 clients for 30 seconds, each with one request after the other

  caddy llm-load http://127.0.0.1:8080 --model sim --rate 20 --ramp 10s --html load.html
        20 requests a second, whether or not earlier ones are answered, and a page
        with plots

  caddy llm-load http://127.0.0.1:8080 --model sim --clients 50 --think 2s \
        --turns 4 --prefixes 8 --prefix-tokens 2000 --input 50-300 --output exp:150
        conversations that share long beginnings

  caddy llm-load http://127.0.0.1:8080 --model sim --rate 10 \
        --class "edit,share=0.6,input=200,output=64,header=X-Class: interactive" \
        --class "summary,share=0.4,input=4000,output=400,slo_ttft=60s"
        two kinds of requests beside each other

An open loop (--rate) sends at random moments with that many a second on average.
Its times start when a request was to be sent, and what is beyond --max-open counts
as offered and failed. A closed loop (--clients) sends less when answers take
longer, as a fixed number of people would; a client whose request failed waits at
least 250ms. Requests begin for --duration; those that are open then are awaited,
each for --timeout at most. Ctrl-C ends it early and still reports.

Tokens of prompts are short English words, about one token each. Distributions of
tokens are 512 (always), 128-2048 (anything between) or exp:512 (exponential with
that mean). The report tells the seed; with --seed the same requests are sent
again, whose prompts are in the servers' caches then. --scenario reads all of this
from a JSON file whose fields are named like the flags, with _ for -; flags have
the last word, but not over what a class says itself.

A target that is not on this machine is refused without --yes-remote.

The exit code is 0 however many requests failed, unless --fail-over says when not.
`,
	CobraFunc: func(cmd *cobra.Command) {
		loadFlags(cmd)
		cmd.RunE = caddycmd.WrapCommandFuncForCobra(runLoad)
	},
}

// loadFlags have no defaults of their own, so that a scenario's stand where no
// flag was given; see Scenario for those.
func loadFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringP("model", "m", "", "Ask for this model")
	f.Bool("completions", false, "Send completions, not chat completions")
	f.DurationP("duration", "d", 0, "Begin requests for so long (default 30s; 10m with --requests)")
	f.IntP("requests", "n", 0, "Send so many requests at most (default 100000)")
	f.StringP("rate", "r", "", "Open loop: arrivals a second, or from-to during the ramp")
	f.Duration("ramp", 0, "Time to full rate, or until all clients have begun (default 0s)")
	f.Int("max-open", 0, "Open loop: most open requests (default 2000)")
	f.IntP("clients", "c", 0, "Closed loop: how many send one request after the other (default 20)")
	f.Duration("think", 0, "Closed loop: mean pause between an answer and the next request (default 0s)")
	f.StringP("input", "i", "", "Tokens of each request's own text (default 512)")
	f.StringP("output", "o", "", "Tokens asked for, as max_tokens (default 128)")
	f.Bool("ignore-eos", false, "Ask vLLM or SGLang to generate all of --output")
	f.Int("prefixes", 0, "How many beginnings the requests share, by Zipf's law (default 0, none)")
	f.Int("prefix-tokens", 0, "Tokens of each shared beginning (default 1024)")
	f.Int("turns", 0, "Closed loop: turns of a conversation (default 1)")
	f.StringArray("class", nil, "A kind of requests: name,share=…,input=…,output=…,header=…; repeatable")
	f.Int("tenants", 0, "How many tenants there are (default 0, none)")
	f.String("tenant-header", "", `Header that names the tenant (default "X-Tenant: {tenant}")`)
	f.StringArrayP("header", "H", nil, "Header of every request, 'Name: value'; repeatable")
	f.String("api-key-env", "", "Send the API key in this environment variable as a bearer token")
	f.Duration("slo-ttft", 0, "Longest time to first token of a good request (default 2s)")
	f.Duration("slo-tpot", 0, "Longest mean time between tokens of a good request (default 100ms)")
	f.Duration("timeout", 0, "Longest a request may take (default 2m)")
	f.Uint64("seed", 0, "Send the same as a run with this seed (default by chance)")
	f.StringP("scenario", "s", "", "Read what to send from this JSON file, - for standard input")
	f.String("json", "", "Write the report as JSON to this file, - for standard output")
	f.String("html", "", "Write the report as a page with plots to this file")
	f.Float64("fail-over", 100, "Exit with 1 when more per cent of the offered requests failed")
	f.Bool("http2", false, "Speak HTTP/2 where the server does; needs https")
	f.Bool("insecure", false, "Take any TLS certificate")
	f.Bool("yes-remote", false, "Send load to a target that is not on this machine")
}
