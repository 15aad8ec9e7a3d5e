package main

import "fmt"

// The dialects.
const (
	chat        = "chat"
	completions = "completions"
)

// inFlight is how many requests a side has been given that have not ended.
const inFlight = 64

// side is one way to decide, with the state that it keeps.
type side interface {
	name() string

	// take gives the side its next requests, in whatever form its decision takes
	// them. Not measured.
	take(batch []request)

	// worker returns one who decides, alone or beside others. It keeps so many
	// requests in flight.
	worker(inFlight int) worker
}

// worker decides for one goroutine.
type worker interface {
	// decide sends request i of the batch somewhere, and ends the one that has been
	// in flight longest. Measured.
	decide(i int) (address string, err error)

	// finish ends all that is in flight. Not measured.
	finish()
}

// flight keeps the newest of what is in flight.
type flight[T any] struct {
	slots []T
	next  int
	full  bool
}

func newFlight[T any](n int) flight[T] { return flight[T]{slots: make([]T, n)} }

// push takes the new one in and returns the one whose place it gets, if any.
func (f *flight[T]) push(v T) (old T, ok bool) {
	old, ok = f.slots[f.next], f.full
	f.slots[f.next] = v
	if f.next++; f.next == len(f.slots) {
		f.next, f.full = 0, true
	}
	return old, ok
}

// drain returns all there are, the oldest first.
func (f *flight[T]) drain() []T {
	var list []T
	if f.full {
		list = append(list, f.slots[f.next:]...)
	}
	list = append(list, f.slots[:f.next]...)
	f.next, f.full = 0, false
	return list
}

// newSides returns all sides over a pool of such endpoints. What is two ways into
// one program shares that program's state.
func newSides(api string, pool []load, promptBytes int) ([]side, error) {
	o, err := newOurs(api, pool, promptBytes)
	if err != nil {
		return nil, fmt.Errorf("setting up our own side: %w", err)
	}
	a, err := newAIBrix(api, pool)
	if err != nil {
		return nil, fmt.Errorf("setting up AIBrix: %w", err)
	}
	g := newGIE(api, pool)
	return []side{
		o, &oursChoice{ours: o},
		a, &aibrixRequest{aibrix: a},
		g, &gieRequest{gie: g},
	}, nil
}

// The names of the sides.
const (
	nameOurs          = "ours"
	nameChoice        = "ours, choice"
	nameAIBrix        = "AIBrix, decision"
	nameAIBrixRequest = "AIBrix, request"
	nameGIE           = "GIE, decision"
	nameGIERequest    = "GIE, request"
)
