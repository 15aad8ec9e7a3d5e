// Command soak lets a real gateway run at high load for as long as one likes,
// while everything that can go wrong around it does, and checks that it did no
// wrong and kept nothing:
//
//	go run ./bench/soak -for 30m
//
// It builds cmd/caddy, starts it, and starts itself as several engines, each a
// process of its own that can be killed and frozen. Clients of every kind ask the
// gateway; engines fail requests in every way; servers are drained, killed, frozen,
// taken out and put in again; the configuration is loaded again all the time. Each
// answer says of itself what it is, and package truth tells where it lies. At the
// end the gateway must be as it was after the warm-up: goroutines, descriptors,
// live heap, reservations, queue.
//
// The exit status is 1 when any check fails; the reasons are printed, and the logs
// of all processes are kept. After an interrupt nothing is judged and nothing kept. It
// needs Linux, for /proc and signals.
package main
