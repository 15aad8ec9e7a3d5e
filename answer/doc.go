// Package answer reads answers to inference requests along, in every dialect
// that engines speak, and writes the few pieces that a gateway adds to an answer
// of its own accord. It is pure: no network, no clock, no goroutines.
//
// The transport makes a [Reader] for each answer it watches and shows it the
// bytes as they pass; the [Facts] say when something was generated, what was
// counted, and whether the answer came to its proper end or to an error. The
// admission handler removes a usage chunk that only we asked for (see
// [UsageFilter]). Both write errors into a stream that has begun (see
// [ErrorEvent]) and take errors out of one that has not (see [InBand]).
// What the gateway answers in an engine's place is an [ErrorBody].
//
// # How an answer is read
//
// Three framings (server-sent events, lines, one whole value) lead to one JSON
// scanner, which walks a value given in pieces cut anywhere and keeps nothing of
// it but the current key. What a value means is told by its place, and which
// places there are is all that differs between dialects: one function for each,
// in a file of its own, from a place and a key to the place of the member.
//
// What is not JSON teaches nothing and does no harm: an event that is broken ends
// where its blank line is. A stream costs no allocation per event and a fixed few
// hundred bytes, however large its events are. Most events of a long answer
// differ only in their text, and those are passed over without being scanned (see
// pattern.go).
//
// # What survives a reload
//
// Nothing here does: every value belongs to one answer.
package answer
