package main

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// trickle is many streams whose events come one by one.
type trickle struct {
	clients []*client
	events  atomic.Int64
	begun   []chan struct{} // closed at the first event, of each client
	ended   atomic.Int64
	left    atomic.Bool
	wrong   failure
	all     sync.WaitGroup
}

func newTrickle(w *workload, g group, share int) *trickle {
	t := &trickle{}
	p, want := newPrompts(w.size, w.tokens, w.stream, pauseBetween), body(w.tokens, w.stream)
	for _, s := range g {
		one := p.writer() // shared: each request is written before the next is made
		for range share {
			c := &client{address: s.address, write: one}
			begun, parts := make(chan struct{}), 0
			c.check = &exactly{want: want, event: func() {
				if parts++; parts == 1 {
					close(begun)
				}
				t.events.Add(1)
			}}
			t.clients = append(t.clients, c)
			t.begun = append(t.begun, begun)
		}
	}
	return t
}

// opening is how many streams are being opened at a time: the next one follows when
// one has begun, so that nothing has to wait in a queue.
const opening = 64

// open opens all of them and waits until each has begun.
func (t *trickle) open(ctx context.Context) error {
	var openers sync.WaitGroup
	var mu sync.Mutex // of the writers
	next := make(chan int)
	for range opening {
		openers.Go(func() {
			for i := range next {
				if err := t.openOne(t.clients[i], &mu); err != nil {
					t.wrong.set(err)
					continue
				}
				select {
				case <-t.begun[i]:
				case <-time.After(patience):
					t.wrong.set(fmt.Errorf("stream %d of %d has not begun within %v", i+1, len(t.clients), patience))
				}
			}
		})
	}
	for i := range t.clients {
		if t.wrong.is.Load() || ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	openers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return t.wrong.err
}

func (t *trickle) openOne(c *client, writers *sync.Mutex) error {
	conn, err := net.DialTimeout("tcp", c.address, patience)
	if err != nil {
		return err
	}
	c.conn, c.read = conn, newAnswerReader(conn)
	c.read.small()
	writers.Lock()
	_, err = conn.Write(c.write.next())
	writers.Unlock()
	if err != nil {
		return err
	}
	t.all.Go(func() {
		if _, _, err := c.read.read(c.check); err != nil && !t.left.Load() {
			t.wrong.set(err)
		}
		t.ended.Add(1)
	})
	return nil
}

// leave closes what is open.
func (t *trickle) leave() {
	t.left.Store(true)
	for _, c := range t.clients {
		c.close()
	}
	t.all.Wait()
}
