//go:build race

package virtual

// raceDetector says that everything takes ten times as long.
const raceDetector = true
