package main

import (
	"fmt"
	"strings"
	"testing"
)

// A decision by every side. Garbage collection is on here, and counts.
func BenchmarkDecision(b *testing.B) {
	for _, goroutines := range []int{1, 16} {
		for _, endpoints := range []int{2, 64, 1000} {
			for _, prompt := range []int{1, 32, 400} {
				c := cell{API: chat, Endpoints: endpoints, PromptKB: prompt, Goroutines: goroutines}
				b.Run(fmt.Sprintf("%d/%dKB/%d", endpoints, prompt, goroutines), func(b *testing.B) {
					benchmarkSides(b, c)
				})
			}
		}
	}
}

func benchmarkSides(b *testing.B, c cell) {
	all, err := newBench(c, loads(c.Endpoints), 1, 128)
	if err != nil {
		b.Fatal(err)
	}
	defer all.finish()
	for i, s := range all.sides {
		b.Run(strings.ReplaceAll(s.name(), ", ", "-"), func(b *testing.B) {
			b.ReportAllocs()
			cpu := 0.0
			for done := 0; done < b.N; {
				n := min(batchOf(c), b.N-done)
				b.StopTimer()
				s.take(all.sources[i].batch(n))
				used := cpuTime()
				b.StartTimer()
				if err := decideAll(all.workers[i], n); err != nil {
					b.Fatal(err)
				}
				cpu += float64(cpuTime() - used)
				done += n
			}
			b.ReportMetric(cpu/float64(b.N), "cpu-ns/op")
		})
	}
}
