package main

import (
	"testing"
	"time"
)

func TestProgressLine(t *testing.T) {
	for _, c := range []struct {
		all, done, took time.Duration
		want            string
	}{
		{0, 0, 5 * time.Second, "chat"}, // building
		{100 * time.Second, 0, 0, " 0 %, about 1:40 left  chat"},
		{100 * time.Second, 50 * time.Second, 50 * time.Second, "50 %, about 0:50 left  chat"},
		// It takes longer than was thought.
		{100 * time.Second, 50 * time.Second, 110 * time.Second, "50 %, about 1:40 left  chat"},
		{100 * time.Second, 100 * time.Second, time.Hour, "100 %, about 0:00 left  chat"},
	} {
		p := &progress{all: c.all}
		p.passed(c.done)
		if got := p.line(c.took, "chat"); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	p := &progress{all: time.Second}
	p.passed(time.Minute)
	if got := p.line(time.Minute, "chat"); got != "100 %, about 0:00 left  chat" {
		t.Errorf("after more than all: %q", got)
	}
}

// The help says that all of it takes some nine minutes.
func TestHowLongAllTakes(t *testing.T) {
	b := &bench{kinds: []kind{{name: plain}, {name: ours}, {name: haproxy}, {name: nginx}}, pairs: 15, slice: 300 * time.Millisecond, warm: 75 * time.Millisecond}
	all := time.Duration(0)
	for _, w := range workloads {
		took := b.takes(&w)
		if took < 20*time.Second || took > 5*time.Minute {
			t.Errorf("%s takes %v", w.name, took)
		}
		all += took
	}
	if all < 8*time.Minute || all > 10*time.Minute {
		t.Errorf("all of it takes %v", all)
	}
}
