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
	// in full, and how many times as short. A single stall must not make a server
	// look dead, nor a single prompt that was cached after all make it a wonder.
	outlier = 4

	// othersMost is the least part of the time that counts for our own prompts.
	othersMost = 0.5

	// sampleTokens is what a prompt counts at most, and stepTokens the longest
	// that engines compute in one step with another.
	sampleTokens, stepTokens = 8 << 10, 4 << 10

	// leastRise is by how much the least time of late is forgotten with each
	// sample.
	leastRise = 1.02

	// floorStep moves the floor towards what a line through the samples says.
	// floorUp and floorDown move it while there is none. Down is faster: what
	// makes a first token late is often something else, what makes it early
	// never is.
	floorStep          = 0.2
	floorUp, floorDown = 0.02, 0.2

	// itlMemory is how much of the mean inter-token latency is kept with each
	// stream.
	itlMemory = 0.9

	minSpeed, maxSpeed = 1, 1e6
	minFloor           = 0.0005
)

// rates is what an endpoint has taught about its speed. Pure; under the pool's
// lock. The zero value knows nothing.
type rates struct {
	samples         int
	tokens, seconds float64 // computed, and what it took, fading
	floor           float64
	line            line // of prompts that had the engine to themselves
	least           float64
	itl             float64
	streams         int
	at              time.Time // of the last sample

	lastFirst time.Time // the last first token seen here
}

// firstToken is what the time of one first token says, before it is known how
// long the prompt was.
type firstToken struct {
	took   float64 // seconds that the prompt was being computed
	alone  bool    // it met an idle engine
	lone   bool    // and nothing of ours came after it
	ahead  float64 // own prompt tokens that stood before it
	others float64 // and others'
	at     time.Time
}

// measure times a first token: of a prompt sent at start, while ahead tokens of
// other prompts of ours stood before it and others of somebody else's. Behind is
// how many of ours came after it and still wait: they may have been computed in
// the same step.
//
// Engines compute prompts one after the other, or in one batch, which comes to
// the same: from one first token to the next is what the next one's prompt took.
// Only a prompt that met an idle engine shows the floor as well.
func (r *rates) measure(start, now time.Time, ahead int, others float64, behind int) firstToken {
	from, alone := start, ahead == 0 && others == 0
	if r.lastFirst.After(start) {
		// What stood before it, or has overtaken it, was computed until then.
		from, alone = r.lastFirst, false
	}
	r.lastFirst = now
	return firstToken{
		took: max(0, now.Sub(from).Seconds()), alone: alone, lone: behind == 0,
		ahead: float64(ahead), others: others, at: now,
	}
}

// learn takes in a first token of a prompt of that many uncached tokens.
func (r *rates) learn(f firstToken, uncached int) {
	known := r.rate()
	tokens, took := float64(uncached), f.took
	if tokens > sampleTokens {
		// However long it was, it is one prompt. Clients may make them look
		// longer than they are.
		still := 0.0
		if f.alone {
			still = min(took, known.Floor)
		}
		tokens, took = sampleTokens, still+(took-still)*sampleTokens/tokens
	}
	if f.others > 0 {
		// The engine has divided this time between our prompts and others'. How
		// long theirs are is a guess, so they get half of it at most.
		took *= max(othersMost, (tokens+f.ahead)/(tokens+f.ahead+f.others))
	}
	if f.alone {
		expected := known.Floor + tokens/known.Speed
		took = min(took, outlier*expected)
		if r.samples >= enoughSamples {
			took = max(took, expected/outlier)
		}
		// A speed that is thought too high must not hide what would correct it.
		short := tokens/min(known.Speed, PriorSpeed) < known.Floor/2
		r.learnFloor(tokens, took, short, f.lone)
		if short {
			return // says next to nothing of the speed
		}
		// What is left may be below zero. Only the sum has to be right.
		took -= r.floor
	} else {
		// What was ahead may have been computed in the same step and be told of
		// after it, in no time: the two together are right.
		took = min(took, outlier*(tokens+f.ahead)/known.Speed+known.Floor)
		if (tokens+f.ahead)/min(known.Speed, PriorSpeed) < known.Floor/2 {
			return // a step's time, whatever was in it
		}
		if tokens > stepTokens && r.samples >= enoughSamples {
			took = max(took, tokens/known.Speed/outlier) // no step is as long
		}
	}
	r.tokens = r.tokens*rateMemory + tokens
	r.seconds = r.seconds*rateMemory + took
	r.samples++
	r.at = f.at
}

// learnFloor takes in a time to first token that began on an idle engine. The
// floor is where a line through such prompts of different lengths meets zero.
// Taking what the speed leaves instead would let an error in one confirm itself
// in the other. Where prompts are all of one length it is at most half.
func (r *rates) learnFloor(tokens, took float64, short, lone bool) {
	if r.floor == 0 {
		r.floor = PriorFloor
	}
	if r.samples >= enoughSamples {
		if r.least *= leastRise; r.least == 0 || took < r.least {
			r.least = took
		}
	}
	if lone {
		y := took
		if _, ok := r.line.intercept(); ok && r.samples >= enoughSamples {
			known := r.rate()
			expected := known.Floor + tokens/known.Speed
			y = min(max(y, expected/lineOutlier), lineOutlier*expected)
		}
		r.line.add(tokens, y)
	}
	if at, ok := r.line.intercept(); ok {
		r.floor += floorStep * (at - r.floor)
	} else {
		switch {
		case !short:
			r.floor = min(r.floor, took/2)
		case took < r.floor:
			r.floor += floorDown * (took - r.floor)
		default:
			r.floor += floorUp * (took - r.floor)
		}
	}
	// It cannot be more than what the fastest of late took in all.
	if r.least > 0 {
		r.floor = min(r.floor, r.least)
	}
	r.floor = max(minFloor, r.floor)
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
	if r.samples >= enoughSamples && r.tokens > 0 {
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
	return freshAfter(now.Sub(r.at))
}

func freshAfter(age time.Duration) float64 {
	return float64(rateHalf) / float64(rateHalf+max(0, age))
}

// Rate returns how fast the endpoint works, and how much of Speed still counts,
// 0 to 1: the rest is better taken from the pool's mean. Under the pool's lock.
func (e *Endpoint) Rate(now time.Time) (r Rate, fresh float64) {
	return e.rates.rate(), e.rates.fresh(now)
}
