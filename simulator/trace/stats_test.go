package trace

import (
	"math"
	"testing"
	"time"
)

// The published traces are read as those who published figures of them read them.
func TestStatsPublished(t *testing.T) {
	for _, tc := range []struct {
		file                string
		requests            int
		rate                float64
		input, output       Lengths // 0 where none is published
		inputRate, seenPart float64
	}{
		{"mooncake_conversation_60min_dithered.jsonl.gz", 12031, 3.40, Lengths{12035, 6909, 27367, 85400}, Lengths{343, 350, 597, 1118}, 40907, .374},
		{"mooncake_conversation_30min.jsonl.gz", 5719, 3.18, Lengths{Mean: 12870}, Lengths{Mean: 346}, 40959, .347},
		{"mooncake_conversation_5min.jsonl.gz", 918, 3.09, Lengths{Mean: 13558}, Lengths{Mean: 353}, 41906, .207},
		{"toolagent_like_15min_SEMISYNTHETIC.jsonl.gz", 5793, 6.46, Lengths{8712, 6589, 15357, 69670}, Lengths{134, 24, 465, 810}, 56263, .561},
		{"azure2023_code_60min.csv.gz", 8819, 2.57, Lengths{2048, 1469, 5187, 7436}, Lengths{28, 13, 55, 251}, 5256, 0},
		{"azure2023_conv_60min.csv.gz", 19366, 5.53, Lengths{1155, 1020, 2734, 4142}, Lengths{211, 129, 424, 601}, 6386, 0},
		{"servegen_deepseek-r1_30min.csv.gz", 72045, 40.0, Lengths{689, 336, 928, 11734}, Lengths{816, 539, 1485, 5108}, 27579, 0},
	} {
		t.Run(tc.file, func(t *testing.T) {
			tr, err := Open(published(t, tc.file), Options{})
			if err != nil {
				t.Fatal(err)
			}
			check(t, tr)
			s := tr.Stats()
			if s.Requests != tc.requests || s.Follow != 0 {
				t.Errorf("%d requests, %d follow; want %d and none", s.Requests, s.Follow, tc.requests)
			}
			near := func(what string, got, want, within float64) {
				if want != 0 && math.Abs(got-want) > within {
					t.Errorf("%s %v, published %v", what, got, want)
				}
			}
			near("rate", s.Rate, tc.rate, .03) // 40.025 is published as 40.0
			near("prompt tokens a second", s.InputRate, tc.inputRate, 1)
			for _, l := range []struct {
				what      string
				got, want Lengths
			}{{"prompt", s.Input, tc.input}, {"answer", s.Output, tc.output}} {
				near(l.what+" mean", l.got.Mean, l.want.Mean, .5)
				near(l.what+" p50", l.got.P50, l.want.P50, 1)
				near(l.what+" p90", l.got.P90, l.want.P90, 1)
				near(l.what+" p99", l.got.P99, l.want.P99, 1)
			}
			if math.Abs(s.Seen-tc.seenPart) > .0005 {
				t.Errorf("%.4f of the prompt tokens seen before, published %.3f", s.Seen, tc.seenPart)
			}
		})
	}
}

func TestStats(t *testing.T) {
	tr := &Trace{Block: 10, Requests: []Request{
		{At: 2 * time.Second, Input: 25, Output: 4, Blocks: []uint64{1, 2, 3}},
		{Follows: 1, At: time.Hour, Input: 20, Output: 4, Blocks: []uint64{1, 2}}, // all but the last token
		{At: 4 * time.Second, Input: 25, Output: 4, Blocks: []uint64{9, 2, 3}},    // nothing, for it begins otherwise
		{At: 6 * time.Second, Input: 30, Output: 8, Blocks: []uint64{1, 2, 4}},
	}}
	want := Stats{
		Requests: 4, Follow: 1, Span: 4 * time.Second,
		Input: Lengths{25, 25, 28.5, 29.85}, Output: Lengths{5, 4, 6.8, 7.88},
		Rate: 1, InputRate: 25, OutputRate: 5, Seen: float64(19+20) / 100,
	}
	got := tr.Stats()
	for _, l := range []*Lengths{&got.Input, &got.Output} {
		l.P90, l.P99 = math.Round(l.P90*1e6)/1e6, math.Round(l.P99*1e6)/1e6
	}
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := new(Trace).Stats(); got != (Stats{}) {
		t.Errorf("of nothing: %+v", got)
	}
	one := &Trace{Requests: []Request{{At: time.Second, Input: 3, Output: 1}}}
	if got := one.Stats(); got.Rate != 0 || got.Input.P99 != 3 {
		t.Errorf("of one request: %+v", got)
	}
}
