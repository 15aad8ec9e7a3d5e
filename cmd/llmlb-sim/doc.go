// Command llmlb-sim replays a trace of requests against simulated inference
// servers, in virtual time, under one routing strategy or under all, and tells
// what users would have felt: an hour of traffic on eight servers takes seconds.
//
// The strategies of this project are the code that serves traffic. The others are
// those of package baseline. See -help for the options, and docs/simulating.md for
// what the numbers mean.
//
// Runs share nothing and go side by side; results come in a fixed order, and the
// same options give the same bytes.
package main
