package queue

import (
	"container/heap"
	"time"
)

// account is what a tenant has open and has used.
type account struct {
	bucket
	name  string
	open  int
	index int // in owing, -1 if it is not there
}

// maxOwing bounds how many tenants are remembered only because tokens of theirs
// are missing. Beyond it the one that would be forgotten next anyway is forgotten
// at once: it gets what is missing a little earlier. Those with Calls open are
// never forgotten; they cost less than the connections that they count.
const maxOwing = 65_536

// account returns a tenant's account, made if needed, which is not to be
// forgotten until rest.
func (l *Limits) account(name string) *account {
	a := l.tenants[name]
	switch {
	case a == nil:
		a = &account{name: name, index: -1}
		l.tenants[name] = a
	case a.index >= 0:
		heap.Remove(&l.owing, a.index)
	}
	return a
}

// rest sees to an account that may have nothing open any more.
func (l *Limits) rest(now time.Time, a *account) {
	switch {
	case a.open > 0:
		return
	case a.owed(now) == 0:
		delete(l.tenants, a.name)
		return
	}
	heap.Push(&l.owing, a)
	if len(l.owing) > maxOwing {
		l.drop()
	}
}

// forget drops those who have nothing open and owe nothing.
func (l *Limits) forget(now time.Time) {
	for len(l.owing) > 0 && l.owing[0].owed(now) == 0 {
		l.drop()
	}
}

func (l *Limits) drop() {
	a := heap.Pop(&l.owing).(*account)
	delete(l.tenants, a.name)
}

// owing is a heap of accounts without open Calls, by when their buckets are full.
type owing []*account

func (h owing) Len() int           { return len(h) }
func (h owing) Less(i, j int) bool { return h[i].full.Before(h[j].full) }
func (h owing) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }
func (h *owing) Push(x any)        { a := x.(*account); a.index = len(*h); *h = append(*h, a) }
func (h *owing) Pop() any {
	old := *h
	a := old[len(old)-1]
	old[len(old)-1] = nil
	*h, a.index = old[:len(old)-1], -1
	return a
}
