//go:build !race

package selection

const raceDetector = false
