package llmlb

// A scrape that told load may still have something to say to the operator. What
// it says takes the place of the reason that a failed scrape would leave, and
// goes with the next scrape. Call these after ObserveSignals.

// ObserveNote notes why the scrape just taken in tells less than it could.
func (e *Endpoint) ObserveNote(reason string) {
	e.pool.mu.Lock()
	e.scrapeError = reason
	e.pool.mu.Unlock()
}

// ObserveDoubt notes that the scrape just taken in held a value that cannot be,
// which was left out. It counts as an error of the scrape.
func (e *Endpoint) ObserveDoubt(reason string) {
	e.scrapeErrors.Add(1)
	e.ObserveNote(reason)
}
