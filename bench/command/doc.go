// Package command is what the command lines of the benchmarks have in common: how
// options are read and refused, the files that results go to, how the gateway is
// built, and what an interrupt comes to.
//
// The commands of bench/datapath, bench/soak and bench/peers call it, and cmd/llmlb-sim
// for options that are times. Nothing here survives anything.
package command
