// Package trace holds workloads to replay: what is asked, when, and which prompts
// begin alike. It reads the published formats and makes workloads up.
//
// Open and Read take a file in any of three formats, plain or gzip, and say what is
// wrong with it where it cannot be trusted. GSP, B2B and Multiturn make up what
// the field's benchmarks send, from a seed. Dither, Speed and First change when
// and how much, and Stats tells what there is.
//
// It knows nothing of servers or of gateways. The pool simulator and its command
// call it. Reading ends with the whole trace in memory, or with an error that
// names the line; nothing of it outlives the process.
package trace
