package status

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

var everybody = viewer{shows: func(string) bool { return true }}

// tellAll is what a stream is told after one more look at the pool.
func tellAll(w *watch, now time.Time, s sight, was told) (int, told) {
	w.mu.Lock()
	w.live.take(now, []sight{s}, &w.past)
	w.mu.Unlock()
	b, is := w.tell(nil, everybody, was)
	return len(b), is
}

// Of 2,000 servers whose numbers all change each second, a page is told a part in
// each second, so that it stays a page and not a flood; a state is told at once.
func TestManyServersAreToldInTurns(t *testing.T) {
	w := &watch{streams: make(map[*stream]struct{})}
	s := made(2000)
	first, was := tellAll(w, noon, s, told{})
	turn := func(i int) (rows int) {
		next := made(2000)
		for k := range next.Endpoints {
			x := float64(i*7919 + k)
			next.Endpoints[k].TTFTMillis = &x
		}
		if i == 3 {
			next.Endpoints[1234].State = "down"
		}
		size, is := tellAll(w, noon.Add(time.Duration(i)*time.Second), next, was)
		for _, r := range w.live.pools[0].rows {
			if r.seq > was.seq {
				rows++
			}
		}
		if i == 3 && w.live.pools[0].rows[1234].State != "down" {
			t.Error("a server that went down has to wait for its turn")
		}
		t.Logf("second %d: %d rows, %d bytes", i, rows, size)
		was = is
		return rows
	}
	t.Logf("the first event has %d bytes for 2,000 servers", first)
	if first > 1<<20 {
		t.Errorf("the first event has %d bytes, want at most a mebibyte", first)
	}
	seen := 0
	for i := 1; i <= 9; i++ {
		rows := turn(i)
		if rows > maxNumbers+1 {
			t.Errorf("%d rows are told in one second, want at most %d", rows, maxNumbers)
		}
		seen += rows
	}
	if seen < 2000 {
		t.Errorf("%d rows are told in nine seconds, want each of 2,000 once", seen)
	}
}

// A second in which nothing changed costs a page nothing.
func TestNothingIsToldWhenNothingChanged(t *testing.T) {
	w := &watch{streams: make(map[*stream]struct{})}
	_, was := tellAll(w, noon, made(10), told{})
	if size, _ := tellAll(w, noon.Add(time.Second), made(10), was); size != 0 {
		t.Errorf("%d bytes are told, want none", size)
	}
	size, was := tellAll(w, noon.Add(2*time.Second), made(9), was)
	if size == 0 {
		t.Error("nobody is told of a server that has left")
	}
	w.live.forget()
	if size, _ := tellAll(w, noon.Add(time.Hour), made(10), was); size == 0 {
		t.Error("after a while without pages nothing is told")
	}
}

// A reload that gives a server's name to another address leaves two of that name,
// while the first ends its streams. Both are shown, and a button means one of them.
func TestServersOfOneNameAreToldApart(t *testing.T) {
	p := llmlb.Acquire("renamed")
	defer p.Release()
	config := func(address string) *llmlb.Settings {
		s := &llmlb.Settings{Pool: "renamed", Members: []llmlb.Member{{Address: address, Name: "gpu-1"}}}
		if err := p.Bind(s); err != nil {
			t.Fatal(err)
		}
		p.Start(s, noon)
		return s
	}
	old := config("10.0.0.1:8000")
	p.Lock()
	lease := p.Reserve(old.Members[0].Endpoint, noon, llmlb.Work{Uncached: 10, Output: 10})
	p.Unlock()
	now := config("10.0.0.2:8000")
	p.Stop(old, noon)
	p.Unbind(old)
	defer func() {
		lease.End(noon)
		p.Stop(now, noon)
		p.Unbind(now)
	}()
	h := new(Handler)
	for name, address := range map[string]string{"gpu-1": "10.0.0.2:8000", "gpu-1 (old)": "10.0.0.1:8000"} {
		e, err := h.endpoint(order{Pool: "renamed", Endpoint: name})
		if err != nil || e.Address() != address {
			t.Errorf("the button of %q means %v (%v), want %s", name, e, err, address)
		}
	}
	if seen := see(noon, false); len(seen) != 1 || len(seen[0].Endpoints) != 2 {
		t.Errorf("seen are %+v, want both", seen)
	}
}

// BenchmarkSee is what it costs to ask a pool of 2,000 servers how they stand.
func BenchmarkSee(b *testing.B) {
	p := llmlb.Acquire("many")
	defer p.Release()
	s := &llmlb.Settings{Pool: "many"}
	for i := range 2000 {
		s.Members = append(s.Members, llmlb.Member{Address: fmt.Sprintf("10.0.%d.%d:8000", i/250, i%250)})
	}
	if err := p.Bind(s); err != nil {
		b.Fatal(err)
	}
	defer p.Unbind(s)
	p.Start(s, noon)
	defer p.Stop(s, noon)
	for b.Loop() {
		see(noon, true)
	}
}

// BenchmarkLook is what a second costs with a page open on 2,000 servers.
func BenchmarkLook(b *testing.B) {
	w := &watch{streams: make(map[*stream]struct{})}
	was := told{}
	for i := range b.N {
		_, was = tellAll(w, noon.Add(time.Duration(i)*time.Second), made(2000), was)
	}
}
