//go:build race

package baseline

// raceDetector says that everything takes ten times as long.
const raceDetector = true
