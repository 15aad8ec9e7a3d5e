package llmlb

import "time"

// ObserveHeader takes in load that an engine told in the head of an answer
// (ORCA): one more sample between two scrapes, and the only kind where nothing is
// scraped. Only Running, Waiting, KVUsage and KVCapacity are read, where they are
// known; numbers out of range must be made Unknown before. It counts as no scrape.
func (e *Endpoint) ObserveHeader(s Signals) {
	if !s.HasLoad() && !(s.KVUsage >= 0) && !(s.KVCapacity > 0) {
		return
	}
	e.pool.mu.Lock()
	e.ledger.observeHeader(&s, e.pool.staleAfter())
	e.touch()
	e.pool.mu.Unlock()
}

// staleAfter is the age at which the current configuration takes numbers for
// none. Under the lock.
func (p *Pool) staleAfter() time.Duration {
	if s := p.current(); s != nil && s.Scrape.StaleAfter > 0 {
		return s.Scrape.StaleAfter
	}
	return DefaultStaleAfter
}

// observeHeader lays what a header tells over what the last scrape said. Counters
// and names stay; the numbers' age is renewed by load alone.
//
// A header is written some time before it is here, and many may come between two
// scrapes, so it begins no window of its own while there are scrapes, and the most
// we held in the window before counts too.
func (l *Ledger) observeHeader(s *Signals, staleAfter time.Duration) {
	if s.At.Before(l.signals.At) {
		return // a newer sample was faster
	}
	m := l.signals
	if !l.scraped {
		m = NoSignals(s.At)
	}
	if s.HasLoad() {
		if s.At.Sub(l.pageAt) >= staleAfter {
			l.dropPage(&m)
		}
		m.At = s.At
	}
	held := l.peak.or(l.past)
	if s.Waiting >= 0 {
		l.otherWaiting(s.Waiting, held)
		m.Waiting, m.WaitingTokens = s.Waiting, Unknown // they belonged to another queue
	}
	if s.Running >= 0 {
		l.otherRunning(s.Running, held)
		m.Running = s.Running
	}
	if s.KVUsage >= 0 {
		m.KVUsage, m.KVUsageMax = s.KVUsage, max(m.KVUsageMax, s.KVUsage)
	}
	if s.KVCapacity > 0 {
		m.KVCapacity = s.KVCapacity
	}
	l.signals, l.scraped = m, true
	if s.HasLoad() && s.At.Sub(l.since) >= staleAfter {
		l.nextWindow(s.At)
	}
}

// dropPage forgets the load of a page that is out of date, in m: a header that
// tells a part of it would renew the age of it all.
func (l *Ledger) dropPage(m *Signals) {
	m.Running, m.Waiting, m.WaitingTokens = Unknown, Unknown, Unknown
	m.KVUsage, m.KVUsageMax = Unknown, Unknown
	m.Sleeping = false
	l.foreignWaiting, l.foreignRunning = 0, 0
}
