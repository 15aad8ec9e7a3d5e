// Package trace holds workloads to replay: what is asked, when, and which prompts
// begin alike. It reads the published formats and makes workloads up.
//
// It knows nothing of servers or of gateways. The pool simulator and its command
// call it. Reading ends with the whole trace in memory, or with an error that
// names the line; nothing of it outlives the process.
package trace
