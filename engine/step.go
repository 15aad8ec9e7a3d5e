package engine

import "time"

// slot is one sequence's part of a step.
type slot struct {
	seq *sequence
	n   int // tokens to compute
}

// Step describes what a replica computes next.
type Step struct {
	// Duration is how long it takes.
	Duration time.Duration
	// PrefillTokens and DecodeTokens are the tokens computed, Sequences the
	// number of sequences they belong to.
	PrefillTokens, DecodeTokens, Sequences int
}

// Begin schedules the next step and reports false when there is nothing to do.
// Running sequences come first, in order of admission, then waiting ones while
// token budget, batch and memory allow. The caller calls End when the step's
// duration has passed, and only then Begin again.
func (r *Replica) Begin(now time.Duration) (Step, bool) {
	if r.stepping {
		panic("engine: Begin called before End of the step in flight")
	}
	var l Load
	budget := r.config.MaxBatchedTokens
	preempted := r.scheduleRunning(&budget, &l)
	// Whoever was just pushed out must not be overtaken by a newcomer that
	// takes the memory it lacks.
	if !preempted {
		r.scheduleWaiting(now, &budget, &l)
	}
	if len(r.step) == 0 {
		return Step{}, false
	}
	r.stepping = true
	r.counters.steps++
	r.counters.prefilled += int64(l.PrefillTokens)
	r.counters.decoded += int64(l.DecodeTokens)
	l.Sequences = len(r.step)
	l.HeldTokens = r.pool.referenced() * r.config.BlockSize
	l.KVTokens = len(r.pool.blocks) * r.config.BlockSize
	return Step{
		Duration:      r.duration(&l),
		PrefillTokens: l.PrefillTokens,
		DecodeTokens:  l.DecodeTokens,
		Sequences:     l.Sequences,
	}, true
}

func (r *Replica) duration(l *Load) time.Duration {
	if r.config.StepTime != nil {
		return r.config.StepTime(*l)
	}
	return r.rates.duration(l)
}

// scheduleRunning gives every running sequence its next token or chunk and
// reports whether memory ran out, so that some were preempted.
func (r *Replica) scheduleRunning(budget *int, l *Load) (preempted bool) {
	for i := 0; i < len(r.running) && *budget > 0; i++ {
		s := r.running[i]
		n := min(s.target()-s.computed, *budget)
		need := r.blocksFor(s.computed+n) - len(s.blocks)
		for need > r.pool.available() {
			last := len(r.running) - 1
			preempted = true
			r.preempt(r.running[last])
			r.running = r.running[:last]
			if last == i {
				return true
			}
		}
		r.schedule(s, n, need, budget, l)
	}
	return preempted
}

// scheduleWaiting admits sequences in order of arrival and stops at the first
// for which there is no memory.
func (r *Replica) scheduleWaiting(now time.Duration, budget *int, l *Load) {
	for *budget > 0 && len(r.running) < r.config.MaxSeqs && r.waiting.first != nil {
		s := r.waiting.first
		r.find(s)
		// At least one token is always computed: its output is the next token.
		hit := min(len(s.blocks)*r.config.BlockSize, s.target()-1)
		n := min(s.target()-hit, *budget)
		need := r.blocksFor(hit+n) - len(s.blocks)
		fetched, ok := r.fits(s, need)
		if !ok {
			return
		}
		r.waiting.remove(s)
		r.hold(s, fetched)
		s.phase = running
		s.computed = hit
		s.published = len(s.blocks)
		r.counters.allHits += int64(hit)
		r.counters.fetched += int64(min(fetched*r.config.BlockSize, hit))
		if !s.seen {
			s.seen = true
			s.scheduled = now
			s.cached = hit
			r.counters.queries += int64(s.Input)
			r.counters.hits += int64(hit)
		}
		r.running = append(r.running, s)
		r.schedule(s, n, need, budget, l)
	}
}

// schedule takes the memory for n more tokens of s and adds them to the step.
func (r *Replica) schedule(s *sequence, n, need int, budget *int, l *Load) {
	for range need {
		s.blocks = append(s.blocks, r.pool.take())
	}
	if s.generated > 0 && s.computed == s.target()-1 {
		l.DecodeTokens++
	} else {
		l.PrefillTokens += n
		l.Pairs += int64(n) * int64(2*s.computed+n)
	}
	l.Context += int64(s.computed)
	*budget -= n
	s.inStep = true
	r.step = append(r.step, slot{s, n})
	if r.config.PublishEarly {
		r.publish(s, s.computed+n)
	}
}

// preempt takes all memory from a running sequence and puts it back at the
// head of the queue. Its prompt and what it has generated so far are computed
// again, except for what the cache still holds by then.
func (r *Replica) preempt(s *sequence) {
	r.release(s)
	s.blocks = s.blocks[:0]
	r.counters.lost += int64(s.computed)
	r.counters.preemptions++
	s.preemptions++
	s.computed = 0
	s.published = 0
	s.phase = waiting
	r.waiting.pushFront(s)
}

// End closes the step in flight and appends one event for each token it
// produced to events, in the order of the batch. Sequences that finished have
// left the replica; those aborted meanwhile are passed over.
func (r *Replica) End(events []Event) []Event {
	if !r.stepping {
		panic("engine: End called without a step in flight")
	}
	r.stepping = false
	finished := false
	for i, sl := range r.step {
		s := sl.seq
		r.step[i].seq = nil
		s.inStep = false
		if s.phase == gone {
			r.counters.lost += int64(sl.n)
			r.recycle(s)
			continue
		}
		s.computed += sl.n
		r.publish(s, s.computed)
		if s.computed < s.target() {
			continue
		}
		s.generated++
		r.counters.generated++
		done := s.generated == s.Output
		events = append(events, Event{
			ID:          s.ID,
			Generated:   s.generated,
			First:       s.generated == 1,
			Finished:    done,
			Cached:      s.cached,
			Arrived:     s.arrived,
			Scheduled:   s.scheduled,
			Preemptions: s.preemptions,
		})
		if done {
			delete(r.byID, s.ID)
			r.release(s)
			s.phase = gone
			finished = true
		}
	}
	r.step = r.step[:0]
	if finished {
		r.dropFinished()
	}
	return events
}

// dropFinished closes the gaps in the batch, keeping its order.
func (r *Replica) dropFinished() {
	kept := r.running[:0]
	for _, s := range r.running {
		if s.phase == gone {
			r.recycle(s)
			continue
		}
		kept = append(kept, s)
	}
	clear(r.running[len(kept):])
	r.running = kept
}

func (r *Replica) blocksFor(tokens int) int {
	return (tokens + r.config.BlockSize - 1) / r.config.BlockSize
}
