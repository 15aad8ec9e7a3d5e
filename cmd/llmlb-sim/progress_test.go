package main

import (
	"testing"
	"time"
)

func TestTheProgressBar(t *testing.T) {
	p := &progress{}
	p.expect(40)
	p.begin("work")
	if got, want := p.line(2*time.Second), "[........................]   0%  0:02  work"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
	p.done(10)
	if got, want := p.line(30*time.Second), "[######..................]  25%  0:30  work, about 1:30 left"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
	p.done(50) // more than was expected
	if got, want := p.line(3725*time.Second), "[########################] 100%  1:02:05  work, about 0:00 left"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}
