// Package truth tells whether what a client got is the truth: each answer says
// of itself which request it is for, which server generated it, which piece it is
// and how many there were, and servers tell what they generated. It owns the form
// of such an answer, the reading of it, and the rules by which request, answer and
// generations must agree.
//
// Package main of bench/soak calls it, on both sides: as the server that writes
// answers, and as the client that reads them. It is pure: no clock, no network.
package truth
