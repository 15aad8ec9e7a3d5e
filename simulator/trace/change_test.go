package trace

import (
	"math"
	"reflect"
	"testing"
	"time"
)

// talks are three conversations of several turns and a request of its own. A
// request's input tells which it is, so that one can be found again.
func talks() *Trace {
	s := time.Second
	return &Trace{Name: "talks", Block: 16, Requests: []Request{
		{At: 0, Input: 10, Output: 1},
		{At: 1 * s, Input: 20, Output: 1},
		{At: 2 * s, Follows: 2, Think: 2 * s, Input: 11, Output: 1},
		{At: 3 * s, Input: 40, Output: 1, Blocks: []uint64{1, 2}},
		{At: 3 * s, Follows: 3, Think: 4 * s, Input: 21, Output: 1},
		{At: 3 * s, Follows: 3, Think: 6 * s, Input: 12, Output: 1},
		{At: 4 * s, Input: 30, Output: 1},
		{At: 9 * s, Follows: 1, Think: 8 * s, Input: 31, Output: 1},
	}}
}

// followed is what each request follows, both by their inputs.
func followed(tr *Trace) map[int]int {
	m := make(map[int]int)
	for i, q := range tr.Requests {
		if q.Follows > 0 {
			m[q.Input] = tr.Requests[i-q.Follows].Input
		}
	}
	return m
}

func TestDither(t *testing.T) {
	tr := talks()
	was := followed(tr)
	orders := make(map[int]bool)
	for seed := range uint64(20) {
		got := tr.Dither(5*time.Second, seed)
		check(t, got)
		if !reflect.DeepEqual(followed(got), was) {
			t.Fatalf("seed %d: follow %v, before %v", seed, followed(got), was)
		}
		at := make(map[int]time.Duration)
		for _, q := range tr.Requests {
			at[q.Input] = q.At
		}
		for _, q := range got.Requests {
			moved := q.At - at[q.Input]
			if q.Follows > 0 && moved != 0 || moved < 0 || moved >= 5*time.Second {
				t.Errorf("seed %d: request %d was moved by %s", seed, q.Input, moved)
			}
		}
		orders[got.Requests[0].Input] = true
		if again := tr.Dither(5*time.Second, seed); !reflect.DeepEqual(got, again) {
			t.Errorf("seed %d gives two traces", seed)
		}
	}
	if len(orders) < 2 {
		t.Error("the same request comes first, whatever the seed")
	}
	if !reflect.DeepEqual(tr, talks()) {
		t.Error("the trace itself was changed")
	}
	if got := tr.Dither(0, 1); !reflect.DeepEqual(got, tr) {
		t.Errorf("by nothing: %+v", got)
	}
}

// Ticks of three seconds are gone after a dither of three seconds: as many
// requests come in each of the seconds.
func TestDitherTicks(t *testing.T) {
	tr := new(Trace)
	for i := range 3000 {
		tr.Requests = append(tr.Requests, Request{At: time.Duration(i/10) * 3 * time.Second, Input: 1, Output: 1})
	}
	var counts [3]int
	for _, q := range tr.Dither(3*time.Second, 1).Requests {
		counts[q.At/time.Second%3]++
	}
	for second, n := range counts {
		if n < 900 || n > 1100 {
			t.Errorf("%d requests in second %d of three, want about 1000", n, second)
		}
	}
}

func TestSpeed(t *testing.T) {
	tr := talks()
	got := tr.Speed(2)
	check(t, got)
	for i, q := range got.Requests {
		if was := tr.Requests[i]; q.At != was.At/2 || q.Think != was.Think/2 || q.Follows != was.Follows {
			t.Errorf("request %d: %+v, before %+v", i, q, was)
		}
	}
	if &got.Requests[3].Blocks[0] != &tr.Requests[3].Blocks[0] {
		t.Error("the ids were copied")
	}
	if got := tr.Speed(1); !reflect.DeepEqual(got, talks()) {
		t.Errorf("at its own speed: %+v", got)
	}
	check(t, tr.Speed(1e-300))
	for _, x := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("speed %v was taken", x)
				}
			}()
			tr.Speed(x)
		}()
	}
}

func TestFirst(t *testing.T) {
	for _, tc := range []struct {
		d    time.Duration
		want []int
	}{
		{0, nil},
		{1, []int{10, 11, 12}},
		{3 * time.Second, []int{10, 20, 11, 21, 12}}, // what arrives at the end is left out
		{4*time.Second + 1, []int{10, 20, 11, 40, 21, 12, 30, 31}},
	} {
		got := talks().First(tc.d)
		check(t, got)
		var inputs []int
		for _, q := range got.Requests {
			inputs = append(inputs, q.Input)
			if q.Follows > 0 && followed(got)[q.Input] != q.Input-1 {
				t.Errorf("first %s: %d follows %d", tc.d, q.Input, followed(got)[q.Input])
			}
		}
		if !reflect.DeepEqual(inputs, tc.want) {
			t.Errorf("first %s: %v, want %v", tc.d, inputs, tc.want)
		}
	}
}
