//go:build race

package live

// slow says that the race detector watches.
const slow = true
