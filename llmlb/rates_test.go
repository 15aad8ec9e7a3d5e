package llmlb

import (
	"math"
	"testing"
	"time"
)

// server is an imagined engine that computes prompts one after the other.
type server struct {
	speed, floor float64
	free         float64 // when it has computed what it has
	rates        rates
}

// alone sends prompts of these lengths, each when the one before is done.
func (s *server) alone(prompts ...int) {
	for _, n := range prompts {
		start := s.free + 1
		s.free = start + s.floor + float64(n)/s.speed
		s.rates.prompt(at(start), at(s.free), n, 0, 0, 0)
	}
}

// together sends them at one moment.
func (s *server) together(prompts ...int) {
	start, ahead := s.free+1, 0
	s.free = start + s.floor
	for _, n := range prompts {
		s.free += float64(n) / s.speed
		s.rates.prompt(at(start), at(s.free), n, ahead, 0, 0)
		ahead += n
	}
}

// prompt sees the first token of a prompt whose length is known.
func (r *rates) prompt(start, now time.Time, uncached, ahead int, others float64, behind int) {
	r.learn(r.measure(start, now, ahead, others, behind), uncached)
}

func times(n int, f func()) {
	for range n {
		f()
	}
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > share*want {
		t.Errorf("%s is %.4g, want %.4g ± %.0f %%", what, got, want, share*100)
	}
}

// An operator of different accelerators need not say how fast each is: their
// first tokens tell, whether prompts come alone or stand in line.
func TestSpeedIsLearnedFromFirstTokens(t *testing.T) {
	for _, tc := range []struct {
		name         string
		speed, floor float64
		send         func(*server)
	}{
		{"alone", 12_000, 0.030, func(s *server) { times(40, func() { s.alone(500, 4000, 1500, 8000) }) }},
		{"in line", 12_000, 0.030, func(s *server) { times(20, func() { s.together(2000, 500, 4000, 1000, 3000, 2500) }) }},
		{"both", 3000, 0.200, func(s *server) {
			times(40, func() { s.alone(800, 6000, 2000); s.together(1500, 1500, 3000) })
		}},
		{"on a CPU", 60, 0.100, func(s *server) { times(20, func() { s.alone(500, 1500) }) }},
		{"faster than assumed", 100_000, 0.020, func(s *server) { times(30, func() { s.alone(20_000, 2000, 60_000) }) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := server{speed: tc.speed, floor: tc.floor}
			tc.send(&s)
			within(t, "speed", s.rates.rate().Speed, tc.speed, 0.15)
		})
	}
}

// What a prompt of the usual length will take is what the operator reads as
// "predicted", so it is the prediction that must be right.
func TestPredictionComesTrue(t *testing.T) {
	s := server{speed: 8000, floor: 0.080}
	times(60, func() { s.alone(40, 2000, 300, 5000) })
	r := s.rates.rate()
	for _, n := range []float64{500, 2000, 6000} {
		within(t, "prediction", r.Predict(0, n, 0), s.floor+n/s.speed, 0.15)
	}
	within(t, "floor", r.Floor, s.floor, 0.3)
}

// Nothing is believed before three first tokens: until then the assumed numbers
// stand, and the table shows none.
func TestTwoSamplesAreNotBelieved(t *testing.T) {
	s := server{speed: 100, floor: 0.050}
	s.alone(2000, 2000)
	if r := s.rates.rate(); r.Speed != PriorSpeed || r.Samples != 2 {
		t.Errorf("after two samples: %+v, want the assumed speed", r)
	}
	s.alone(2000)
	if r := s.rates.rate(); r.Speed >= PriorSpeed || r.Samples != 3 {
		t.Errorf("after three samples: %+v, want a speed below the assumed one", r)
	}
}

// A prompt of a few tokens takes what the network takes. It must not make the
// accelerator look slow.
func TestShortPromptsTeachTheFloorAlone(t *testing.T) {
	s := server{speed: 10_000, floor: 0.020}
	times(50, func() { s.alone(5) })
	r := s.rates.rate()
	if r.Samples != 0 || r.Speed != PriorSpeed {
		t.Errorf("%+v, want no sample of the speed", r)
	}
	within(t, "floor", r.Floor, 0.020, 0.1)

	slow := server{speed: 10_000, floor: 0.150}
	times(200, func() { slow.alone(5) })
	within(t, "floor of a server far away", slow.rates.rate().Floor, 0.150, 0.1)
}

// One stall (a reload of weights, a network hiccup) must not send the next
// minute's traffic elsewhere.
func TestOneStallDoesNotMakeAServerLookDead(t *testing.T) {
	for _, queued := range []bool{false, true} {
		s := server{speed: 10_000, floor: 0.040}
		times(20, func() { s.alone(2000, 4000) })
		before := s.rates.rate()
		ahead := 0
		if queued {
			ahead = 4000
		}
		s.rates.prompt(at(s.free+1), at(s.free+61), 2000, ahead, 0, 0)
		after := s.rates.rate()
		if after.Speed < before.Speed*0.65 || after.Speed >= before.Speed {
			t.Errorf("queued %v: speed %.0f after a minute's stall, want a little below %.0f", queued, after.Speed, before.Speed)
		}
		if after.Floor > 2*before.Floor+0.02 {
			t.Errorf("queued %v: floor %.3f after a stall, was %.3f", queued, after.Floor, before.Floor)
		}
	}
}

// A server that has become slow is believed to be, once it is so again and again.
func TestALastingSlowDownIsBelieved(t *testing.T) {
	s := server{speed: 10_000, floor: 0.040}
	times(20, func() { s.alone(2000, 4000) })
	s.speed = 1000
	times(40, func() { s.alone(2000, 4000) })
	within(t, "speed", s.rates.rate().Speed, 1000, 0.35)
}

// When a long prompt was sent first and a short one answered first, the long one
// did not have the server for itself: the time since says nothing of the floor.
func TestAnOvertakenPromptDoesNotSinkTheFloor(t *testing.T) {
	s := server{speed: 5000, floor: 0.050}
	times(20, func() { s.alone(1000, 3000) })
	before := s.rates.rate().Floor
	start := s.free + 1
	s.rates.prompt(at(start+0.1), at(start+1.95), 100, 10_000, 0, 0)
	s.rates.prompt(at(start), at(start+2.05), 10_000, 0, 0, 0)
	after := s.rates.rate()
	if after.Floor < before*0.9 {
		t.Errorf("floor %.4f after a prompt was overtaken, was %.4f", after.Floor, before)
	}
	within(t, "speed", after.Speed, 5000, 0.15)
}

// Requests of another gateway share the accelerator. Their part of the time is
// not held against it.
func TestTimeSpentOnOthersIsNotCounted(t *testing.T) {
	var r rates
	for i := range 30 {
		// 6,000 tokens of ours and 2,000 of others at 10,000 tokens/s.
		r.prompt(at(float64(i)), at(float64(i)+0.8), 6000, 0, 2000, 0)
	}
	within(t, "speed", r.rate().Speed, 10_000, 0.1)
	for i := range 60 {
		// A long queue of others, 2,000 tokens in truth: how long their prompts
		// are is a guess, which must not decide alone, nor keep us from learning.
		r.prompt(at(float64(100+i)), at(float64(100+i)+0.4), 2000, 0, 50_000, 0)
	}
	within(t, "speed behind a long queue of others", r.rate().Speed, 10_000, 0.1)
}

// Prompts that are all in the cache take a step, like any other. They do not show
// how fast prompts are computed.
func TestCachedPromptsTeachNoSpeed(t *testing.T) {
	s := server{speed: 8000, floor: 0.05}
	times(20, func() { s.alone(1000, 3000) })
	times(200, func() { s.together(1, 1, 0, 1, 1) })
	within(t, "speed", s.rates.rate().Speed, 8000, 0.1)

	var r rates
	for range 10 {
		r.prompt(at(5), at(1), 0, 0, 0, 0)
		r.prompt(at(1), at(1), 0, 9, 0, 0)
	}
	if got := r.rate(); math.IsNaN(got.Speed) || got.Speed <= 0 {
		t.Errorf("after prompts without tokens or time: %+v", got)
	}
}

// A prompt that the engine had in its cache, or never read, looks as if it had
// been computed in no time. One of them must not make the server a wonder.
func TestOnePromptInNoTimeIsNoWonder(t *testing.T) {
	for _, length := range []int{4000, 750_000} {
		s := server{speed: 8000, floor: 0.05}
		times(20, func() { s.alone(1000, 3000) })
		before := s.rates.rate()
		s.rates.prompt(at(s.free+1), at(s.free+1.06), length, 0, 0, 0)
		s.rates.prompt(at(s.free+2), at(s.free+2.06), length, 5000, 0, 0)
		if after := s.rates.rate(); after.Speed > before.Speed*2 || math.Abs(after.Floor-before.Floor) > 0.03 {
			t.Errorf("%d tokens in no time: %.0f tokens/s and a floor of %.3f s, were %.0f and %.3f", length, after.Speed, after.Floor, before.Speed, before.Floor)
		}
		s.free += 3
		times(20, func() { s.alone(1000, 3000) })
		within(t, "speed a little later", s.rates.rate().Speed, 8000, 0.25)
	}
}

// The first request after a start may take a minute, while weights are loaded.
// The floor must not keep that.
func TestASlowFirstRequestIsForgotten(t *testing.T) {
	s := server{speed: 8000, floor: 0.05}
	s.rates.prompt(at(0), at(60), 2000, 0, 0, 0)
	s.free = 60
	times(5, func() { s.alone(1000, 3000) })
	if r := s.rates.rate(); r.Floor > 0.2 || r.Speed < 4000 {
		t.Errorf("ten requests later: %.0f tokens/s, floor %.3f s", r.Speed, r.Floor)
	}
}

// A server that is avoided for having been slow gets its chance again: what is
// known of it counts for less and less.
func TestWhatWasLearnedFades(t *testing.T) {
	var none rates
	if f := none.fresh(t0); f != 0 {
		t.Errorf("an unknown speed counts %v, want 0", f)
	}
	s := server{speed: 100, floor: 0.050}
	s.alone(500, 500, 500)
	last := s.rates.at
	for _, tc := range []struct {
		after time.Duration
		want  float64
	}{{0, 1}, {time.Minute, 0.5}, {3 * time.Minute, 0.25}, {-time.Hour, 1}} {
		if f := s.rates.fresh(last.Add(tc.after)); math.Abs(f-tc.want) > 1e-9 {
			t.Errorf("after %v it counts %v, want %v", tc.after, f, tc.want)
		}
	}
}

// A clock that is set back, or two tokens in one moment, give numbers that can
// be predicted with.
func TestOddTimesGiveUsableRates(t *testing.T) {
	for name, send := range map[string]func(*rates, int){
		"no time at all":  func(r *rates, i int) { r.prompt(at(float64(i)), at(float64(i)), 5000, 0, 0, 0) },
		"clock set back":  func(r *rates, i int) { r.prompt(at(float64(100-i)), at(float64(50-i)), 5000, 0, 0, 0) },
		"queued, no time": func(r *rates, i int) { r.prompt(at(float64(i)), at(float64(i)), 5000, 5000, 0, 0) },
		"everything held": func(r *rates, i int) { r.prompt(at(float64(i)), at(float64(i)+0.05), 0, 100, 0, 0) },
		"centuries":       func(r *rates, i int) { r.prompt(t0.AddDate(-200, 0, 0), at(float64(i)), 5000, 5000, 0, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			var r rates
			for i := range 10 {
				send(&r, i)
			}
			got := r.rate()
			if !(got.Speed >= minSpeed && got.Speed <= maxSpeed) || !(got.Floor >= minFloor && got.Floor < 1) {
				t.Errorf("%+v cannot be predicted with", got)
			}
		})
	}
}

// What calls teach stands in the pool's JSON, and is null until it is known.
func TestLearnedRatesAreShown(t *testing.T) {
	p := NewPool("rates")
	s := bound(t, p, Member{Address: "a:1", Name: "a", Zone: "east", Weight: 2})
	p.Start(s, t0)
	e := s.Members[0].Endpoint
	call := func(sec float64) {
		c := NewCall(p, s, at(sec))
		c.InputTokens = 2000
		p.Lock()
		c.Lease = p.Reserve(e, at(sec), Work{Uncached: 2000, Output: 101})
		p.Unlock()
		c.SawFirstToken(at(sec + 0.25))
		c.LastToken, c.TokenEvents, c.PromptTokens, c.OutputTokens = at(sec+2.25), 101, 2000, 101
		c.EndAttempt(at(sec+2.25), Served)
	}
	row := func(sec float64) EndpointStatus { return p.Status(at(sec)).Endpoints[0] }
	if r := row(0); r.PrefillSpeed != nil || r.FloorMillis != nil || r.ITLMillis != nil || r.Samples != 0 {
		t.Errorf("before any call: %+v, want nulls", r)
	}
	within(t, "assumed prediction", row(0).PredictedMillis, 1000*(PriorFloor+float64(priorPrompt)/PriorSpeed), 0.001)
	for i := range 40 {
		call(float64(10 * i))
	}
	r := row(401)
	if r.PrefillSpeed == nil || r.FloorMillis == nil || r.ITLMillis == nil || r.Samples != 40 {
		t.Fatalf("after forty calls: %+v", r)
	}
	within(t, "inter-token latency", *r.ITLMillis, 20, 0.001)
	within(t, "predicted", r.PredictedMillis, *r.FloorMillis + 1000*r.PromptTokens / *r.PrefillSpeed, 0.001)
	within(t, "prediction of 2,000 tokens", *r.FloorMillis + 2e6 / *r.PrefillSpeed, 250, 0.1)
	if r.Zone != "east" || r.Weight != 2 {
		t.Errorf("zone %q weight %v, want east and 2", r.Zone, r.Weight)
	}

	// Another process may run on another accelerator.
	old := page(410, 0, 0)
	old.ProcessStart = 1_700_000_000
	young := page(411, 0, 0)
	young.ProcessStart = 1_700_000_400
	e.ObserveSignals(old)
	e.ObserveSignals(young)
	if r := row(411); r.PrefillSpeed != nil || r.ITLMillis != nil || r.Samples != 0 {
		t.Errorf("after a restart: %+v, want nothing known", r)
	}
}
