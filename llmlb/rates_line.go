package llmlb

const (
	// lineMemory is how much of the line is kept with each point: the last
	// thirty make up two thirds.
	lineMemory = 0.97

	// lineOutlier is how many times as high, or as low, as expected a point may
	// lie to count in full.
	lineOutlier = 1.5

	// lineSpread is how far, by their standard deviation over their mean, lengths
	// must differ to show a line.
	lineSpread = 0.2

	// linePoints is how many points it takes.
	linePoints = 4
)

// line is a least-squares line through fading points: how long prompts took, by
// their length. Pure.
type line struct{ n, x, y, xx, xy float64 }

func (l *line) add(x, y float64) {
	l.n, l.x, l.y = l.n*lineMemory+1, l.x*lineMemory+x, l.y*lineMemory+y
	l.xx, l.xy = l.xx*lineMemory+x*x, l.xy*lineMemory+x*y
}

// intercept returns where the line meets zero, if the points show one.
func (l *line) intercept() (y float64, ok bool) {
	if l.n < linePoints-0.5 {
		return 0, false
	}
	x := l.x / l.n
	spread := l.xx/l.n - x*x
	if spread <= lineSpread*lineSpread*x*x {
		return 0, false
	}
	slope := (l.xy/l.n - x*l.y/l.n) / spread
	return l.y/l.n - max(0, slope)*x, true
}
