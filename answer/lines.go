package answer

import "bytes"

// lines reads a stream of JSON values, one on each line.
type lines struct {
	facts   tally
	scan    scanner
	pattern pattern
	inside  bool // of a line
}

func newLines(under grammar) *lines {
	o := &lines{facts: newTally()}
	o.scan.facts, o.scan.under = &o.facts, under
	o.scan.reset(root)
	return o
}

func (o *lines) Facts() *Facts { return &o.facts.Facts }

func (*lines) Stream() bool { return true }

func (o *lines) Observe(b []byte) {
	for len(b) > 0 {
		begins := !o.inside
		if begins {
			if n, text := o.pattern.skip(b); n > 0 {
				if text > 0 {
					o.facts.Tokens++
				}
				b = b[n:]
				continue
			}
			o.pattern.passOver()
		}
		end := bytes.IndexByte(b, '\n')
		if end < 0 {
			o.inside = true
			o.scan.scan(b)
			return
		}
		o.scan.holes.n = 0
		counts := o.facts.counts
		o.scan.scan(b[:end])
		if begins && o.facts.Tokens > 0 && !o.scan.loose {
			o.pattern.learn(b[:end+1], &o.scan.holes, o.facts.counts > counts)
		}
		o.scan.reset(root)
		o.inside = false
		b = b[end+1:]
	}
}
