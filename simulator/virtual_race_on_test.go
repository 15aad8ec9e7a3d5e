//go:build race

package simulator

// raceDetector says that everything takes ten times as long.
const raceDetector = true
