//go:build race

package e2e

// slowdown is how many times slower the process may be than it is in use: the race
// detector watches every byte that is copied.
const slowdown = 20
