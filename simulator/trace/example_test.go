package trace_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/simulator/trace"
)

// Three requests in two ticks of three seconds; the last one begins like the
// first.
func Example() {
	rows := `
{"timestamp":0,   "input_length":1100,"output_length":52,"hash_ids":[0,7,8]}
{"timestamp":0,   "input_length":900, "output_length":40,"hash_ids":[1,2]}
{"timestamp":3000,"input_length":1500,"output_length":60,"hash_ids":[0,7,9]}`
	t, err := trace.Read(strings.NewReader(rows), "afternoon", trace.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := t.Stats()
	fmt.Printf("%d requests in %s, %.0f tokens a prompt, %.0f%% of them seen before\n", s.Requests, s.Span, s.Input.Mean, 100*s.Seen)
	fmt.Println("twice as fast:", t.Speed(2).Stats().Span)
	fmt.Println("the first second:", len(t.First(time.Second).Requests), "requests")
	// Output:
	// 3 requests in 3s, 1167 tokens a prompt, 29% of them seen before
	// twice as fast: 1.5s
	// the first second: 2 requests
}

func ExampleMultiturn() {
	t, err := trace.Multiturn(trace.MultiturnOptions{Conversations: 1, Turns: 3, Seed: 4, Sigma: -1, Think: -1})
	if err != nil {
		fmt.Println(err)
		return
	}
	for i, q := range t.Requests {
		fmt.Printf("turn %d: %d tokens, follows %d\n", i+1, q.Input, q.Follows)
	}
	// Output:
	// turn 1: 1150 tokens, follows 0
	// turn 2: 1650 tokens, follows 1
	// turn 3: 2150 tokens, follows 1
	// turn 4: 2650 tokens, follows 1
	// turn 5: 3150 tokens, follows 1
}
