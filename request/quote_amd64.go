package request

import "golang.org/x/sys/cpu"

// vectors says that the machine can look at 32 bytes in one step. What finds the ends of
// strings is half of what it takes to read a long prompt otherwise.
var vectors = cpu.X86.HasAVX2

// escapedQuotes steps over bytes, 32 at a time, in which no quote stands but behind
// one backslash. It looks at n bytes from first on, and at the two before them, and
// returns how many it has passed.
//
//go:noescape
func escapedQuotes(first *byte, n int) (passed int)
