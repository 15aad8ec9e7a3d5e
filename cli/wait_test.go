package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// draining is a server with so much left.
func draining(name, address string, open int, running, waiting float64) *llmlb.EndpointStatus {
	e := row(name, address, running, waiting, 0.3, 200)
	e.State, e.Drain = "draining", &llmlb.DrainStatus{By: "order", Open: open}
	if open == 0 && running == 0 && waiting == 0 {
		e.State = "drained"
	}
	return &e
}

// waiting runs llm-drain --wait on gpu-a and gpu-b against what turn tells of them
// after so many seconds. It returns what was printed, on a terminal or not, and how
// it ended.
func waiting(t *testing.T, d drain, turn func(sec int, address string) (*llmlb.EndpointStatus, error)) (printed string, took time.Duration, err error) {
	t.Helper()
	begun := time.Now()
	list := []llmlb.EndpointStatus{*draining("gpu-a", "a:1", 9, 9, 0), *draining("gpu-b", "b:1", 9, 9, 0), row("gpu-c", "c:1", 0, 0, 0, 0)}
	c := &controlled{t: t, pools: []llmlb.PoolStatus{{Pool: "default", Endpoints: list}}}
	c.rows = func(address string) (*llmlb.EndpointStatus, error) {
		return turn(int(time.Since(begun)/time.Second), address)
	}
	var b, warned strings.Builder
	d.orders, d.wait, d.every, d.warn = orders{send: c.send}, true, time.Second, &warned
	err = d.run(t.Context(), &b, []string{"gpu-a", "gpu-b"})
	if warned.Len() > 0 {
		t.Errorf("warned of %q", warned.String())
	}
	return b.String(), time.Since(begun), err
}

func code(err error) int {
	if end, ok := errors.AsType[*ending](err); ok {
		return end.code
	}
	if err != nil {
		return 1
	}
	return 0
}

// emptying is two servers that lose a request every ten and every two seconds.
func emptying(limit time.Time) func(sec int, address string) (*llmlb.EndpointStatus, error) {
	return func(sec int, address string) (*llmlb.EndpointStatus, error) {
		n, name := max(0, 3-sec/10), "gpu-a"
		if address == "b:1" {
			n, name = max(0, 2-sec/2), "gpu-b"
		}
		e := draining(name, address, n, float64(n), 0)
		e.Drain.Until = limit
		return e, nil
	}
}

// The operator sees how much is left until nothing is: in lines that are written
// over, or one by one in a log.
func TestDrainShowsItsProgress(t *testing.T) {
	for name, terminal := range map[string]bool{"drain_log.txt": false, "drain_terminal.txt": true} {
		synctest.Test(t, func(t *testing.T) {
			printed, took, err := waiting(t, drain{terminal: terminal, limit: time.Minute}, emptying(time.Now().Add(time.Minute)))
			if err != nil || took != 30*time.Second {
				t.Errorf("%v after %v", err, took)
			}
			golden(t, name, printed)
		})
	}
}

// A script sees from the exit code how it ended.
func TestHowWaitingEnds(t *testing.T) {
	stuck := func(sec int, address string) (*llmlb.EndpointStatus, error) {
		return draining("gpu-"+address[:1], address, 2, 1, 0), nil
	}
	limited := func(cut bool) func(sec int, address string) (*llmlb.EndpointStatus, error) {
		return func(sec int, address string) (*llmlb.EndpointStatus, error) {
			e, _ := stuck(sec, address)
			e.Drain.Until, e.Drain.Overdue, e.Drain.Cut = time.Now(), sec >= 10, cut
			if e.Drain.Overdue {
				e.Drain.Until = time.Now().Add(-time.Duration(sec-10) * time.Second)
			}
			return e, nil
		}
	}
	for name, test := range map[string]struct {
		d     drain
		turn  func(sec int, address string) (*llmlb.EndpointStatus, error)
		code  int
		after time.Duration
		says  string
	}{
		"timeout":     {drain{timeout: 30 * time.Second}, stuck, 5, 30 * time.Second, "not drained within 30s: gpu-a has 2 open here, engine: 1 running, 0 waiting; gpu-b has"},
		"limit":       {drain{limit: 10 * time.Second}, limited(false), 4, 10 * time.Second, "the limit is over: gpu-a has 2 open here"},
		"cut in vain": {drain{limit: 10 * time.Second, cut: true}, limited(true), 4, 26 * time.Second, "the limit is over: "},
		"resumed": {drain{}, func(sec int, address string) (*llmlb.EndpointStatus, error) {
			if e, err := stuck(sec, address); sec < 5 || address == "b:1" {
				return e, err
			}
			e := row("gpu-a", address, 2, 0, 0, 0)
			return &e, nil
		}, 1, 5 * time.Second, "gpu-a is up: it takes new requests again"},
		"taken out of the configuration": {drain{}, func(sec int, address string) (*llmlb.EndpointStatus, error) {
			if sec < 5 {
				return stuck(sec, address)
			}
			return nil, notThere("there is no endpoint")
		}, 0, 5 * time.Second, ""},
		"a reload under way": {drain{}, func(sec int, address string) (*llmlb.EndpointStatus, error) {
			switch {
			case sec < 5:
				return stuck(sec, address)
			case sec < 12:
				return nil, errors.New("connection refused")
			}
			return draining("gpu", address, 0, 0, 0), nil
		}, 0, 12 * time.Second, ""},
		"Caddy has gone": {drain{}, func(sec int, address string) (*llmlb.EndpointStatus, error) {
			if sec < 5 {
				return stuck(sec, address)
			}
			return nil, errors.New("connection refused")
		}, 1, 16 * time.Second, "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, took, err := waiting(t, test.d, test.turn)
				if code(err) != test.code || took != test.after {
					t.Errorf("exit code %d after %v (%v), want %d after %v", code(err), took, err, test.code, test.after)
				}
				if err != nil && !strings.Contains(err.Error(), test.says) {
					t.Errorf("says %q, want %q", err, test.says)
				}
			})
		})
	}
}

// A pool that is renamed has its servers as new ones, and an order given under the old
// name says nothing of them: nobody may take such a server for drained.
func TestTheWaitForAServerWhosePoolIsRenamed(t *testing.T) {
	elsewhere := func(e *llmlb.EndpointStatus) llmlb.PoolStatus {
		return llmlb.PoolStatus{Pool: "new", Endpoints: []llmlb.EndpointStatus{*e}}
	}
	up := row("gpu-a", "a:1", 2, 0, 0.1, 100)
	for name, test := range map[string]struct {
		before, after []llmlb.PoolStatus // beside the pool, and instead of it
		still         bool               // the old pool has it drained
		rows          int                // seconds for which the new pool has it draining
		code          int
		says          string
	}{
		"it is taken out":              {nil, nil, false, 0, 0, "gpu-a: drained after 5s, no longer configured\n"},
		"it takes requests":            {nil, []llmlb.PoolStatus{elsewhere(&up)}, false, 0, 1, "a:1 is in pool new now, where it is up"},
		"it does, and has drained":     {nil, []llmlb.PoolStatus{elsewhere(&up)}, true, 0, 1, "a:1 is in pool new now, where it is up"},
		"it did in another one before": {[]llmlb.PoolStatus{elsewhere(&up)}, []llmlb.PoolStatus{elsewhere(&up)}, false, 0, 0, "no longer configured"},
		"it drains there":              {nil, []llmlb.PoolStatus{elsewhere(draining("gpu-a", "a:1", 2, 2, 0))}, false, 9, 0, "gpu-a: drained after 9s\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				c := &controlled{t: t, pools: append([]llmlb.PoolStatus{{Pool: "old", Endpoints: []llmlb.EndpointStatus{up}}}, test.before...)}
				c.rows = func(address string) (*llmlb.EndpointStatus, error) {
					switch sec := int(time.Since(begun) / time.Second); {
					case sec < 5:
						return draining("gpu-a", address, 1, 1, 0), nil
					case sec == 5:
						if c.pools = test.after; test.still {
							return draining("gpu-a", address, 0, 0, 0), nil
						}
						return nil, notThere("there is no pool")
					case sec < test.rows:
						return draining("gpu-a", address, 2, 2, 0), nil
					}
					return draining("gpu-a", address, 0, 0, 0), nil
				}
				var b, warned strings.Builder
				d := drain{orders: orders{send: c.send, pool: "old"}, wait: true, every: time.Second, warn: &warned}
				err := d.run(t.Context(), &b, []string{"a:1"})
				said := b.String()
				if err != nil {
					said = err.Error()
				}
				if code(err) != test.code || !strings.Contains(said, test.says) {
					t.Errorf("exit code %d: %q, want %d and %q", code(err), said, test.code, test.says)
				}
			})
		})
	}
}

// Ctrl-C leaves the drain in place, and the operator reads how to end it.
func TestInterruptedWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &controlled{t: t, pools: []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{*draining("gpu-a", "a:1", 2, 1, 0)}}}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var b, warned strings.Builder
		d := drain{orders: orders{send: c.send}, wait: true, every: time.Second, warn: &warned, cut: true, limit: time.Hour}
		err := d.run(ctx, &b, []string{"gpu-a"})
		if code(err) != exitInterrupted || !strings.HasSuffix(err.Error(), "the draining goes on, 'caddy llm-resume gpu-a' ends it") {
			t.Errorf("exit code %d: %v", code(err), err)
		}
		if got := strings.Join(c.told, "\n"); got != `POST /llmlb/pools/default/endpoints/a:1/drain {"cut":true,"limit":"1h0m0s"}` {
			t.Errorf("told %s", got)
		}
		if !strings.HasPrefix(warned.String(), "every server of pool default drains now") {
			t.Errorf("warned of %q", warned.String())
		}
	})
}

// Without --wait the command says how each server stands and is done.
func TestDrainWithoutWaiting(t *testing.T) {
	c := &controlled{t: t, pools: twoPools()[:1]}
	c.rows = func(address string) (*llmlb.EndpointStatus, error) {
		e := draining("gpu-a", address, 3, 3, 0)
		e.Reason = "3 open here; limit in 10m0s"
		return e, nil
	}
	var b, warned strings.Builder
	d := drain{orders: orders{send: c.send}, limit: 10 * time.Minute, warn: &warned}
	if err := d.run(t.Context(), &b, []string{"gpu-a"}); err != nil {
		t.Fatal(err)
	}
	if b.String() != "gpu-a 10.4.0.11:8000: draining, 3 open here; limit in 10m0s\n" || warned.Len() > 0 {
		t.Errorf("printed %q, warned of %q", b.String(), warned.String())
	}
}

// A name may not do anything to the terminal, and a long one may not break a line.
func TestProgressIsPrintable(t *testing.T) {
	e := draining("\x1b[2Jgpu"+strings.Repeat("x", 200), "a:1", 1, 0, 0)
	var b strings.Builder
	s := screen{w: &b, terminal: true}
	for range 2 {
		s.draw([]*progress{{server: &server{pool: "p", row: *e}}}, time.Second)
	}
	if strings.Contains(b.String(), "[2Jg") && strings.Contains(b.String(), "\x1b[2Jg") {
		t.Errorf("%q", b.String())
	}
	first, second, _ := strings.Cut(b.String(), "\n")
	if n := len([]rune(strings.TrimPrefix(first, "\r\x1b[2K"))); n > maxLine {
		t.Errorf("a line of %d", n)
	}
	if !strings.HasPrefix(second, "\x1b[1A\r\x1b[2K") {
		t.Errorf("the second is not written over the first: %q", second)
	}
}

// A script goes on when the server that it has resumed is in use.
func TestResumeWaits(t *testing.T) {
	state := func(name, state, reason string) *llmlb.EndpointStatus {
		e := row(name, "a:1", 0, 0, 0, 0)
		e.State, e.Reason = state, reason
		return &e
	}
	loading := func(sec int) (*llmlb.EndpointStatus, error) {
		switch {
		case sec < 3:
			return state("gpu-a", "down", "connection refused"), nil
		case sec < 8:
			return state("gpu-a", "starting", "loading its model"), nil
		}
		return state("gpu-a", "up", ""), nil
	}
	for name, test := range map[string]struct {
		timeout time.Duration
		row     func(sec int) (*llmlb.EndpointStatus, error)
		code    int
		after   time.Duration
		prints  string
	}{
		"until it is up": {0, loading, 0, 8 * time.Second, "gpu-a a:1: down, connection refused\ngpu-a a:1: starting, loading its model\ngpu-a a:1: up\n"},
		"timeout":        {5 * time.Second, loading, 5, 5 * time.Second, "gpu-a a:1: down, connection refused\ngpu-a a:1: starting, loading its model\n"},
		"its page is read once more": {0, func(sec int) (*llmlb.EndpointStatus, error) {
			e := state("gpu-a", "degraded", "slow")
			if e.ScrapeAgeMillis = new(float64(1000*sec + 200)); sec >= 4 {
				e.ScrapeAgeMillis = new(float64(1000*sec - 3500))
			}
			return e, nil
		}, 0, 4 * time.Second, "gpu-a a:1: degraded, slow\n"},
		"its page is not read any more": {0, func(sec int) (*llmlb.EndpointStatus, error) {
			e := state("gpu-a", "up", "")
			e.ScrapeAgeMillis, e.Blind = new(float64(1000*sec+200)), sec > 5
			return e, nil
		}, 0, 15 * time.Second, "gpu-a a:1: up\n"},
		"its page is old at the timeout": {3 * time.Second, func(sec int) (*llmlb.EndpointStatus, error) {
			e := state("gpu-a", "up", "")
			e.ScrapeAgeMillis = new(float64(1000*sec + 200))
			return e, nil
		}, 5, 3 * time.Second, "gpu-a a:1: up\n"},
		"it has no page": {0, func(int) (*llmlb.EndpointStatus, error) {
			e := state("gpu-a", "up", "")
			e.ScrapeAgeMillis = nil
			return e, nil
		}, 0, 0, "gpu-a a:1: up\n"},
		"it is taken out": {0, func(sec int) (*llmlb.EndpointStatus, error) {
			if sec < 3 {
				return loading(sec)
			}
			return nil, notThere("there is no endpoint")
		}, 1, 3 * time.Second, "gpu-a a:1: down, connection refused\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				c := &controlled{t: t, pools: []llmlb.PoolStatus{{Pool: "default", Endpoints: []llmlb.EndpointStatus{*state("gpu-a", "drained", "")}}}}
				c.rows = func(string) (*llmlb.EndpointStatus, error) { return test.row(int(time.Since(begun) / time.Second)) }
				var b strings.Builder
				r := resume{orders: orders{send: c.send}, wait: true, timeout: test.timeout, every: time.Second}
				err := r.run(t.Context(), &b, []string{"a:1"})
				if code(err) != test.code || time.Since(begun) != test.after {
					t.Errorf("exit code %d after %v: %v", code(err), time.Since(begun), err)
				}
				if b.String() != test.prints {
					t.Errorf("printed %q, want %q", b.String(), test.prints)
				}
			})
		})
	}
}
