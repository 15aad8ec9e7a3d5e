package main

import (
	"slices"
	"testing"
)

// Whatever gets slower or faster during a run must fall on all systems alike.
func TestTurnsAreFair(t *testing.T) {
	const systems, rounds = 4, 16
	before := [systems][systems]int{}
	places := [systems]int{}
	for round := range rounds {
		order := turns(systems, round)
		if len(slices.Compact(slices.Sorted(slices.Values(order)))) != systems {
			t.Fatalf("round %d: %v", round, order)
		}
		for place, s := range order {
			places[s] += place
			for _, later := range order[place+1:] {
				before[s][later]++
			}
		}
	}
	for a := range systems {
		for b := range a {
			if before[a][b] != before[b][a] {
				t.Errorf("%d came before %d %d times, and after it %d times", a, b, before[a][b], before[b][a])
			}
		}
		if places[a] != places[0] {
			t.Errorf("system %d stands at %d on average, system 0 at %d", a, places[a], places[0])
		}
	}
}
