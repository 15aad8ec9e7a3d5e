package virtual

import (
	"slices"
	"time"
)

// seeds is how many runs there are of each kind: so many, and fewer where the race
// detector makes them slow. There is one goroutine, and little for it to find.
func seeds(n uint64) uint64 {
	if raceDetector {
		return (n + 4) / 5
	}
	return n
}

// between returns a whole number from low to high, each as likely.
func (w *world) between(low, high int) int { return low + w.rng.IntN(high-low+1) }

// write makes up a text that nobody has seen before.
func (w *world) write(tokens int) passage {
	w.texts++
	return passage{w.texts, tokens}
}

// distinct returns prompts that have nothing in common, of lengths between two
// bounds, with answers of lengths between two others.
func (w *world) distinct(short, long, least, most int) func() *prompt {
	return func() *prompt {
		return &prompt{
			text:   []passage{w.write(w.between(short, long))},
			answer: w.write(w.between(least, most)),
		}
	}
}

// closedLoop has n clients that each ask again as soon as they are answered.
// They begin one after the other within the given time.
func (w *world) closedLoop(n int, within time.Duration, next func() *prompt) {
	var ask func(*visit)
	ask = func(*visit) { w.send(next(), ask) }
	for range n {
		w.after(time.Duration(w.rng.Float64()*float64(within)), arrives, func() { ask(nil) })
	}
}

// openLoop has calls arrive at random, so many a second, whatever becomes of
// those before.
func (w *world) openLoop(perSecond float64, next func() *prompt) {
	var arrive func()
	arrive = func() {
		w.send(next(), nil)
		w.after(w.exponential(perSecond), arrives, arrive)
	}
	w.after(w.exponential(perSecond), arrives, arrive)
}

// neighbours has other gateways send as many calls a second, to all machines
// alike.
func (w *world) neighbours(perSecond float64, next func() *prompt) {
	var arrive func()
	arrive = func() {
		if err := w.machines[w.rng.IntN(len(w.machines))].elsewhere(next()); err != nil {
			w.t.Fatal(err)
		}
		w.after(w.exponential(perSecond), arrives, arrive)
	}
	w.after(w.exponential(perSecond), arrives, arrive)
}

// exponential is the time to the next of events that come at random, so many a
// second.
func (w *world) exponential(perSecond float64) time.Duration {
	return time.Duration(w.rng.ExpFloat64() / perSecond * float64(time.Second))
}

// converse has somebody speak a number of turns with the model: beginning at
// some moment within the given time, and thinking for a while, on average as long
// as given, before saying more. Each turn holds all that was said before.
func (w *world) converse(turns int, within, think time.Duration, system passage, say func() (question, answer passage), then func(*visit)) {
	text := []passage{system}
	var speak func()
	speak = func() {
		question, answer := say()
		text = append(text, question)
		turns--
		w.send(&prompt{text: text, answer: answer, first: 2}, func(v *visit) {
			then(v)
			text = append(slices.Clip(text), answer)
			if turns > 0 {
				w.after(w.exponential(1/think.Seconds()), arrives, speak)
			}
		})
	}
	w.after(time.Duration(w.rng.Float64()*float64(within)), arrives, speak)
}
