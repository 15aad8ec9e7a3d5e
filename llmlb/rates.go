package llmlb

import "time"

// Rate is how fast an endpoint works, as we see it: the engine, its accelerator,
// the network between and whatever else keeps it busy. Learned from our own
// calls alone, so that a pool of different accelerators needs no tuning.
type Rate struct {
	// Speed is how many prompt tokens it computes a second while it computes.
	Speed float64

	// Floor is the seconds to the first token that no prompt is too short for.
	Floor float64

	// ITL is the seconds between two tokens of one stream, 0 until known.
	ITL float64

	// Samples is how many first tokens taught it; below three Speed and Floor
	// are assumed.
	Samples int
}

const (
	// PriorSpeed and PriorFloor hold until an endpoint has shown its own.
	PriorSpeed = 5000  // prompt tokens a second
	PriorFloor = 0.050 // seconds

	// enoughSamples is how many first tokens it takes to be believed.
	enoughSamples = 3

	// rateMemory is how much of what was learned is kept with each sample: the
	// last twenty make up two thirds.
	rateMemory = 0.95

	// rateHalf is the time after which half of what is known of an endpoint is
	// given up for what the pool does on average. A server that was slow for a
	// minute, and is avoided for it, must get the chance to show that it no
	// longer is.
	rateHalf = time.Minute

	// outlier is how many times as long as predicted a sample may take to count
	// in full. A single stall must not make a server look dead.
	outlier = 4

	// floorUp and floorDown move the floor. Down is faster: what makes a first
	// token late is often something else, what makes it early never is.
	floorUp, floorDown = 0.02, 0.2

	// itlMemory is how much of the mean inter-token latency is kept with each
	// stream.
	itlMemory = 0.9

	minSpeed, maxSpeed = 1, 1e8
	minFloor           = 0.0005
)

// rates is what an endpoint has taught about its speed. Pure; under the pool's
// lock. The zero value knows nothing.
type rates struct {
	samples         int
	tokens, seconds float64 // computed, and what it took, fading
	floor           float64
	itl             float64
	streams         int
	at              time.Time // of the last sample

	lastFirst time.Time // the last first token seen here
	carried   float64   // seconds of a step that a short prompt was told of first
}

// prompt takes in a first token: of a prompt of that many uncached tokens, sent
// at start, while ahead tokens of other prompts stood before it, others of them
// not ours.
//
// Engines compute prompts one after the other, or in one batch, which comes to
// the same: from one first token to the next is what the next one's prompt took.
// Only a prompt that met an idle engine shows the floor as well.
func (r *rates) prompt(start, now time.Time, uncached, ahead int, others float64) {
	from, alone := start, ahead == 0 && others == 0
	if r.lastFirst.After(start) {
		// What stood before it, or has overtaken it, was computed until then.
		from, alone = r.lastFirst, false
	}
	r.lastFirst = now
	took := max(0, now.Sub(from).Seconds())
	tokens := float64(uncached)
	if others > 0 {
		// The engine has divided this time between our prompts and others'.
		took *= (tokens + float64(ahead)) / (tokens + float64(ahead) + others)
	}
	known := r.rate()
	compute := tokens / known.Speed
	if alone {
		took = min(took, outlier*(known.Floor+compute))
		r.learnFloor(took-compute, compute)
		if compute < known.Floor/2 {
			return // says next to nothing of the speed
		}
		took = max(0, took-r.floor)
	} else {
		// Prompts computed in one step are told of at once: the first of them
		// seems to have taken it all, the others no time.
		if took < r.carried {
			took += r.carried
		}
		r.carried = 0
		if compute < known.Floor/2 {
			r.carried = took // a step's time, whatever the prompt was
			return
		}
		if r.samples >= enoughSamples {
			took = min(took, outlier*(tokens+float64(ahead))/known.Speed+known.Floor)
		}
	}
	r.tokens = r.tokens*rateMemory + tokens
	r.seconds = r.seconds*rateMemory + took
	r.samples++
	r.at = now
}

// learnFloor takes in what was left of a time to first token besides computing.
// Of a long prompt that is the error of the speed more than anything else, and a
// floor that took it all would never let the speed come right.
func (r *rates) learnFloor(rest, compute float64) {
	if r.floor == 0 {
		r.floor = PriorFloor
	}
	step := floorUp
	if rest < r.floor {
		step = floorDown
	}
	share := PriorFloor / (PriorFloor + compute)
	r.floor = max(minFloor, r.floor+step*share*share*(rest-r.floor))
}

// stream takes in the inter-token latency of one answer.
func (r *rates) stream(seconds float64) {
	if r.streams++; r.streams == 1 {
		r.itl = seconds
		return
	}
	r.itl = r.itl*itlMemory + seconds*(1-itlMemory)
}

// rate returns what is known, or assumed.
func (r *rates) rate() Rate {
	out := Rate{Speed: PriorSpeed, Floor: PriorFloor, ITL: r.itl, Samples: r.samples}
	if r.floor > 0 {
		out.Floor = r.floor
	}
	if r.samples >= enoughSamples {
		out.Speed = min(max(r.tokens/max(r.seconds, r.tokens/maxSpeed), minSpeed), maxSpeed)
	}
	return out
}

// fresh is how much of the speed still counts: 1 just after a sample, a half a
// rateHalf later.
func (r *rates) fresh(now time.Time) float64 {
	if r.samples < enoughSamples {
		return 0
	}
	return float64(rateHalf) / float64(rateHalf+max(0, now.Sub(r.at)))
}

// Rate returns how fast the endpoint works, and how much of Speed still counts,
// 0 to 1: the rest is better taken from the pool's mean. Under the pool's lock.
func (e *Endpoint) Rate(now time.Time) (r Rate, fresh float64) {
	return e.rates.rate(), e.rates.fresh(now)
}
