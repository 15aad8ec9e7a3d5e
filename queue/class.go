package queue

import "time"

// Class is a service level. Calls of a class are equal but for their tenants.
type Class struct {
	Name string

	// Rank orders classes: 0 is served first.
	Rank int

	// Share (0 to 1) is the part of the tokens that goes to the class while it
	// waits, however much those above it ask for.
	Share float64

	// Saturation is the pool's saturation from which on the class starts nothing
	// but its Share. 0 is off.
	Saturation float64

	// MaxWait is how long a Call may wait after its arrival.
	MaxWait time.Duration

	// Deadline is how long after its arrival a Call must have been placed, by
	// its own account; 0 for no such limit.
	Deadline time.Duration
}
