package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"
)

// MultiturnOptions shape conversations. What is 0 has its default.
type MultiturnOptions struct {
	// Rate is the mean of new conversations a second. Their begins are a Poisson
	// process.
	// Default: 1.
	Rate float64

	// Conversations is how many there are.
	// Default: 500.
	Conversations int

	// Turns is the mean of a conversation's requests. After each one it is as likely
	// as after any other that there is one more.
	// Default: 6.
	Turns int

	// Think is the mean of the time from an answer's end to the next question. It
	// is exponential. Negative is none.
	// Default: 30s.
	Think time.Duration

	// System is how many tokens the system prompt has, Groups how many different
	// ones there are: a conversation has one of them at random. System may be
	// negative for none.
	// Default: 1000, and 1, which all share.
	System, Groups int

	// Question and Answer are the mean lengths in tokens of what a user writes in a
	// turn and of what the model answers. Both are lognormal.
	// Default: 150 and 350.
	Question, Answer int

	// Sigma is the standard deviation of the lengths' logarithms. Negative is none:
	// every length is the mean.
	// Default: 0.9.
	Sigma float64

	// MaxContext is what prompt and answer together have at most, in tokens: lengths
	// are cut to it, and a conversation that has reached it ends.
	// Default: 32000.
	MaxContext int

	// Seed is that of everything drawn, and of the ids.
	Seed uint64
}

// Multiturn makes up conversations. The first turn arrives by itself; each other
// one follows the end of the turn before after a time to think, so that a slow
// service is asked less. Its prompt is the one before, the answer to that, and a
// new question; Blocks go on into the answer, so that a cache which keeps what it
// generated finds it. Each conversation is a client of its own.
//
// At of a turn that follows another is what it would be if answers took no time.
func Multiturn(o MultiturnOptions) (*Trace, error) {
	t, err := multiturn(o, readLimits)
	if err != nil {
		return nil, fmt.Errorf("generating multiturn: %w", err)
	}
	return t, nil
}

func multiturn(o MultiturnOptions, lim limits) (*Trace, error) {
	if err := o.settle(); err != nil {
		return nil, err
	}
	systems := make([]prompt, o.Groups)
	for g := range systems {
		systems[g].add(text(o.Seed, "multiturn system", g), o.System)
	}
	t := &Trace{Name: "multiturn", Block: pieceTokens}
	arrivals := poisson{rand: stream(o.Seed, streamArrivals), rate: o.Rate}
	group := stream(o.Seed, streamOrder)
	lengths := stream(o.Seed, streamLengths)
	think := stream(o.Seed, streamThink)
	pieces := 0
	for c := range o.Conversations {
		at := arrivals.next()
		client := "conversation-" + strconv.Itoa(c)
		p := systems[group.IntN(o.Groups)].clone(0)
		first := len(t.Requests)
		for turn := 0; ; turn++ {
			left := o.MaxContext - p.tokens
			if left < 2 || turn > 0 && lengths.IntN(o.Turns) == 0 {
				break
			}
			q := Request{At: at, Client: client, Conversation: uint64(c) + 1}
			if turn > 0 {
				q.Follows = 1
				q.Think = time.Duration(think.ExpFloat64() * float64(o.Think))
				at += q.Think
				q.At = at
			}
			p.add(text(o.Seed, "multiturn question", c, turn), lognormal(lengths, o.Question, o.Sigma, left-1))
			q.Input = p.tokens
			q.Output = lognormal(lengths, o.Answer, o.Sigma, o.MaxContext-p.tokens)
			p.add(text(o.Seed, "multiturn answer", c, turn), q.Output)
			q.Blocks = p.ids
			t.Requests = append(t.Requests, q)
			// How many there will be is not known before.
			if pieces+len(p.ids) > lim.ids || len(t.Requests) > lim.rows {
				return nil, fmt.Errorf("more than %d requests or %d pieces", lim.rows, lim.ids)
			}
		}
		pieces += len(p.ids)
		// Turns share one array: each has what the last one has, as far as it goes.
		for i := first; i < len(t.Requests); i++ {
			n := len(t.Requests[i].Blocks)
			t.Requests[i].Blocks = p.ids[:n:n]
		}
	}
	t.sort()
	return t, nil
}

func (o *MultiturnOptions) settle() error {
	if o.Rate == 0 {
		o.Rate = 1
	}
	switch {
	case o.Think == 0:
		o.Think = 30 * time.Second
	case o.Think < 0:
		o.Think = 0
	case o.Think > 24*time.Hour:
		return fmt.Errorf("think time %s is more than a day", o.Think)
	}
	switch {
	case o.Sigma == 0:
		o.Sigma = 0.9
	case o.Sigma < 0:
		o.Sigma = 0
	case !(o.Sigma <= 5):
		return fmt.Errorf("sigma %v is not within 0 to 5", o.Sigma)
	}
	err := settle([]setting{
		{"conversations", &o.Conversations, 500, 1},
		{"turns", &o.Turns, 6, 1},
		{"system tokens", &o.System, 1000, 0},
		{"groups", &o.Groups, 1, 1},
		{"question tokens", &o.Question, 150, 1},
		{"answer tokens", &o.Answer, 350, 1},
		{"context tokens", &o.MaxContext, 32_000, 2},
	})
	if err != nil {
		return err
	}
	if o.Groups > readLimits.rows {
		return fmt.Errorf("groups %d are more than %d", o.Groups, readLimits.rows)
	}
	if o.System > o.MaxContext-2 {
		return fmt.Errorf("a system prompt of %d tokens leaves no room in %d", o.System, o.MaxContext)
	}
	if float64(o.Groups)*float64(o.System)/pieceTokens > float64(readLimits.ids) {
		return fmt.Errorf("%d system prompts of %d tokens have more than %d pieces", o.Groups, o.System, readLimits.ids)
	}
	return bounds(float64(o.Conversations), float64(o.System), o.Rate)
}

// lognormal is a length with that mean, within 1 to most.
func lognormal(r *rand.Rand, mean int, sigma float64, most int) int {
	// The mean of exp(mu + sigma z) is exp(mu + sigma²/2).
	x := float64(mean) * math.Exp(sigma*r.NormFloat64()-sigma*sigma/2)
	return int(max(1, min(math.Round(x), float64(most))))
}
