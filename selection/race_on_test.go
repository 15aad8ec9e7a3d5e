//go:build race

package selection

// raceDetector tells that scratch space is dropped at random, as sync.Pool does
// under the race detector.
const raceDetector = true
