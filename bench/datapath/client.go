package main

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// client is one connection that sends a request when it is told and reads the
// answer. It writes bytes that were made beforehand: net/http's client would take
// more of the two cores than the proxy that is measured.
type client struct {
	address string
	write   *writer
	check   checker

	conn net.Conn
	read *answerReader
}

// took is what one request took, from the first byte written.
type took struct{ first, whole time.Duration }

func newClient(address string, p *prompts, want []byte) *client {
	return &client{address: address, write: p.writer(), check: &exactly{want: want}}
}

// patience bounds one read or write.
const patience = 30 * time.Second

func (c *client) connect() error {
	if c.conn != nil {
		return nil
	}
	conn, err := net.DialTimeout("tcp", c.address, patience)
	if err != nil {
		return err
	}
	c.conn, c.read = conn, newAnswerReader(conn)
	return nil
}

func (c *client) ask() (took, error) {
	if err := c.connect(); err != nil {
		return took{}, err
	}
	request := c.write.next()
	began := time.Now()
	if err := c.conn.SetDeadline(began.Add(patience)); err != nil {
		return took{}, err
	}
	if _, err := c.conn.Write(request); err != nil {
		return took{}, fmt.Errorf("sending a request: %w", err)
	}
	first, leftOpen, err := c.read.read(c.check)
	if err != nil {
		return took{}, err
	}
	t := took{first.Sub(began), time.Since(began)}
	if !leftOpen {
		c.close()
	}
	return t, nil
}

func (c *client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // it is given up
		c.conn = nil
	}
}

// crowd is the clients of one system, for one workload.
type crowd struct {
	make    func() *client
	clients []*client
}

func (c *crowd) grow(n int) {
	for len(c.clients) < n {
		c.clients = append(c.clients, c.make())
	}
}

func (c *crowd) close() {
	for _, one := range c.clients {
		one.close()
	}
}

// slice is what was seen of a system for a short time.
type slice struct {
	requests int
	seconds  float64
	cpu      time.Duration // of the system
	took     []took        // of an open loop
}

// gauge reads the processor time that is measured.
type gauge func() (time.Duration, error)

// failure keeps the first error of many goroutines.
type failure struct {
	err  error
	once sync.Once
	is   atomic.Bool
}

func (f *failure) set(err error) {
	f.once.Do(func() { f.err = err; f.is.Store(true) })
}

// sleep sleeps, or until nobody wants it any more.
func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// saturate has so many clients ask again and again, for a while that does not
// count and a while that does.
func (c *crowd) saturate(ctx context.Context, n int, warm, measured time.Duration, cpu gauge) (slice, error) {
	c.grow(n)
	var (
		stop  atomic.Bool
		done  atomic.Int64
		wrong failure
		all   sync.WaitGroup
	)
	for _, one := range c.clients[:n] {
		all.Go(func() {
			for !stop.Load() && !wrong.is.Load() {
				if _, err := one.ask(); err != nil {
					wrong.set(err)
					return
				}
				done.Add(1)
			}
		})
	}
	sleep(ctx, warm)
	var s slice
	before, err := cpu()
	if err != nil {
		wrong.set(err)
	}
	began, count := time.Now(), done.Load()
	sleep(ctx, measured)
	// A machine that is busy with something else may need longer for one.
	for limit := time.Now().Add(patience); done.Load() == count && time.Now().Before(limit) && !wrong.is.Load() && ctx.Err() == nil; {
		sleep(ctx, measured)
	}
	after, err := cpu()
	if err != nil {
		wrong.set(err)
	}
	s.requests, s.seconds, s.cpu = int(done.Load()-count), time.Since(began).Seconds(), after-before
	stop.Store(true)
	all.Wait()
	if wrong.err == nil {
		return s, ctx.Err()
	}
	return s, wrong.err
}

// spare is how many clients of an open loop wait for their turn to begin with, and
// mostClients how many there may be when answers are late.
const spare, mostClients = 16, 2000

// lateness is how late a request of an open loop may be sent.
const lateness = 2 * time.Millisecond

// pace asks at a fixed rate, whether or not answers have come: one more client
// joins whenever all are busy.
func (c *crowd) pace(rate float64, warm, measured time.Duration, cpu gauge) (slice, error) {
	c.grow(spare)
	var (
		due   = make(chan bool) // true: it counts
		mu    sync.Mutex
		s     slice
		wrong failure
		all   sync.WaitGroup
	)
	work := func(one *client) {
		all.Go(func() {
			var own []took
			for counts := range due {
				t, err := one.ask()
				if err != nil {
					wrong.set(err)
					continue
				}
				if counts {
					own = append(own, t)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			s.took = append(s.took, own...)
		})
	}
	for _, one := range c.clients {
		if err := one.connect(); err != nil {
			return s, err
		}
		work(one)
	}
	// On a thread of its own, which sleeps to the point.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := time.Now()
	var before time.Duration
	var begun time.Time
	for i := 0; !wrong.is.Load(); i++ {
		at := time.Duration(float64(i) / rate * float64(time.Second))
		if at >= warm+measured {
			break
		}
		if at >= warm && begun.IsZero() {
			var err error
			if before, err = cpu(); err != nil {
				wrong.set(err)
			}
			begun = time.Now()
		}
		switch early := at - time.Since(began); {
		case early > 0:
			pause(early)
		case early < -lateness:
			// This thread did not get a core. What it should have sent meanwhile, sent
			// at once, would be a burst that nobody asked for.
			began = began.Add(-early)
		}
		select {
		case due <- at >= warm:
		default:
			if len(c.clients) == mostClients {
				wrong.set(fmt.Errorf("%d requests are open at %.0f a second", mostClients, rate))
				break
			}
			c.grow(len(c.clients) + 1)
			work(c.clients[len(c.clients)-1])
			due <- at >= warm
		}
	}
	close(due)
	all.Wait()
	after, err := cpu()
	if err != nil {
		wrong.set(err)
	}
	s.requests, s.seconds, s.cpu = len(s.took), time.Since(begun).Seconds(), after-before
	return s, wrong.err
}
