package engine

import "time"

// Request is one sequence to generate.
type Request struct {
	// ID names the sequence in events and in Abort. It must differ from every
	// other ID that the replica has not finished yet.
	ID uint64
	// Blocks are the chained hashes of the sequence's full blocks, head first:
	// equal ids mean equal content from the start of the prompt up to and
	// including that block. They may go on into the answer, if its text is
	// known beforehand; then a later prompt that contains the answer finds it.
	// Blocks without an id, such as a partial last one, are never shared. No
	// id comes twice in one request, as follows from chaining. The slice is
	// read until the sequence ends and never written.
	Blocks []uint64
	// Input is the number of prompt tokens, Output the number of tokens to
	// generate; both are at least 1.
	Input, Output int
}

// Event says that a sequence produced a token.
type Event struct {
	ID uint64
	// Generated counts the sequence's tokens so far, this one included.
	Generated int
	// First marks the first token, Finished the last. Both may be set.
	First, Finished bool
	// Cached is the number of prompt tokens found in the prefix cache when the
	// sequence was first scheduled.
	Cached int
	// Arrived is the time given to Add, Scheduled the start of the first step
	// that worked on the sequence; their difference is the wait in the queue.
	Arrived, Scheduled time.Duration
	// Preemptions counts how often the sequence lost its memory and had to
	// start again.
	Preemptions int
}

type phase uint8

const (
	waiting phase = iota
	running
	gone // aborted while a step was computing it
)

// sequence is a request inside the replica.
type sequence struct {
	Request
	phase       phase
	inStep      bool // part of the step in flight
	seen        bool // has been scheduled at least once
	generated   int
	computed    int // tokens whose KV entries are in memory
	cached      int
	published   int // leading blocks already offered to the index
	preemptions int
	arrived     time.Duration
	scheduled   time.Duration
	blocks      []int32 // held by it; while it waits, those that it would find
	lookup      lookup
	prev, next  *sequence // neighbours in the waiting queue
}

// target is the number of tokens that must be computed before the next one can
// be sampled.
func (s *sequence) target() int { return s.Input + s.generated }

// queue is the FIFO of waiting sequences; aborts leave from the middle and
// preempted sequences come back to the front.
type queue struct {
	first, last *sequence
	length      int
}

func (q *queue) pushBack(s *sequence) {
	s.prev, s.next = q.last, nil
	if q.last == nil {
		q.first = s
	} else {
		q.last.next = s
	}
	q.last = s
	q.length++
}

func (q *queue) pushFront(s *sequence) {
	s.prev, s.next = nil, q.first
	if q.first == nil {
		q.last = s
	} else {
		q.first.prev = s
	}
	q.first = s
	q.length++
}

func (q *queue) remove(s *sequence) {
	if s.prev == nil {
		q.first = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.last = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.prev, s.next = nil, nil
	q.length--
}
