//go:build !amd64

package request

// Where there is nothing wider, words are looked at.
var vectors = false

func escapedQuotes(*byte, int) (passed int) { return 0 }
