// Command peers measures what one decision costs, in process and on the same
// input: where does this request go? It compares caddy-llmlb's strategy "work"
// with the prefix-cache router of the AIBrix gateway and with the scheduler of the
// Gateway API Inference Extension (GIE), by their own code, linked as modules.
//
//	go run . -json result.json            # every cell, some five minutes
//	go test -run '^$' -bench . -benchmem  # the same as Go benchmarks
//
// # Input
//
// A pool of 2 to 1,000 endpoints, each with sequences that run, requests that
// wait and KV memory in use: the same numbers on all sides. Prompts of 1, 32 and
// 400 KB, as chat or as completion. One half begins with one of 16 system prompts
// that make up three quarters of the prompt and have been seen before; the other
// half is new from its first word. All sides see the same prompts, but for a
// random number of fixed length that makes the new ones new. Before anything is
// measured, every side decides on the same number of such prompts, by itself, so
// that all indexes have been filled equally. 64 requests are in flight.
//
// # What is counted
//
// Ours: reading the body as it came from the client (model, limits, all checks of
// the fields, hashing of the whole prompt), the lookup in the index, filter, cost
// and pick, the reservation and that an attempt begins, the index learning that
// the blocks are on their way, and for another request, which ends at the same
// moment, its first token, the index learning that its blocks are there, the end
// of its reservation and what its usage teaches. "Choice" is the same without the
// reading of the body.
//
// AIBrix, decision: the message taken out of the body already, its routing
// context, Route (tokenizing by characters, hashing, match, pick, index update,
// its metrics), AddRequestCount, and DoneRequestCount of another request.
//
// AIBrix, request: the same, and what its server does first: looking up the model
// and its pods, filtering and shuffling them. Not counted: reading the body. The
// server's package cannot be linked beside GIE, since they need different versions
// of Envoy's API.
//
// GIE, decision: Schedule of its scheduler on a request parsed already and a list
// of candidates made already (hashing, match, three scorers, pick, its metrics),
// and PreRequest of its prefix plugin, with the index update that this starts in a
// goroutine of its own. It books nothing when a request begins or ends.
//
// GIE, request: decoding the body and HandleRequest of its director, which is the
// above and turning the body into its own form, admission, listing the pods and
// copying the state of each. Not counted: writing the body out again for Envoy.
//
// So in "decision" only our side pays for reading JSON. Nobody pays for HTTP, gRPC
// or Envoy, for scraping, or for garbage collection, which is off while the clock
// runs: that spares the sides that allocate more. Logs go nowhere, formatted by
// nobody.
//
// # How the sides are set up
//
// Ours: defaults. GIE: the scorers and weights of its chart (queue 2, KV cache 2,
// prefix 3), the plugin's own defaults, max-score picker. It looks at the first
// 16 KB of a prompt, ours and AIBrix at all of it. AIBrix: the environment of its
// chart (package chart), which hashes blocks of 128 characters; the default of the
// code is 4, which costs it many times more. Linked together, both peers get newer
// versions of shared dependencies than they ask for; two of AIBrix's are raised
// further because the versions that it names do not build here (bytedance/sonic with
// this Go, kuberay with GIE's controller-runtime), and prometheus/client_golang is
// GIE's for all, since AIBrix does not build with newer ones.
//
// # What is read
//
// Every round measures all sides one after the other on batches of the same shape,
// each round beginning with the next side. A ratio is that of two sides in one
// round; the median of all rounds is reported with a bootstrap interval of 95 %.
// With one goroutine it is CPU time of the process per pick, which includes work
// left to other goroutines and is hardly disturbed by what else the machine does.
// With 16 goroutines it is time by the clock per pick, in which locks show.
package main
