package main

import "slices"

// turns returns in which order so many systems are measured in a round: as they
// are listed, and in the next round the other way round, so that each stands before
// and after each other equally often.
func turns(systems, round int) []int {
	order := make([]int, systems)
	for i := range order {
		order[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(order)
	}
	return order
}
