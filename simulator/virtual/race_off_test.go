//go:build !race

package virtual

const raceDetector = false
