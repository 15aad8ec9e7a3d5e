// Package virtual simulates a pool of inference servers, and the gateways before
// it, in virtual time: an hour passes in a second.
//
// The servers are those of package engine. A gateway is either this project's own
// — the choice of package selection, the account of package llmlb and the queue of
// package queue, the code that serves traffic — or one that follows a [Strategy],
// a rule of somebody else's. What is true of a server and what a gateway knows of
// it are kept apart: a gateway has its own counts, what it remembers of where it
// sent which prompt, and what it reads of the servers now and then.
//
// A run owns all its state, starts no goroutine and reads no clock; a seed and a
// trace give the same run, byte for byte. The command llmlb-sim calls it, and so do
// tests of the strategy.
package virtual
