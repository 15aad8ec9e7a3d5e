package answer

// whole reads an answer that is one JSON value.
type whole struct {
	facts tally
	scan  scanner
}

func newWhole(under grammar) *whole {
	o := &whole{facts: newTally()}
	o.scan.facts, o.scan.under, o.scan.whole = &o.facts, under, true
	o.scan.reset(root)
	return o
}

func (o *whole) Observe(b []byte) { o.scan.scan(b) }

func (o *whole) Facts() *Facts { return &o.facts.Facts }

func (*whole) Stream() bool { return false }
