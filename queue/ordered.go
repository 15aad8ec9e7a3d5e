package queue

// ordered is a binary heap of things that keep their own place in it, so that one
// can be taken out of the middle, or moved when what orders it has changed.
type ordered[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(x T) *int
}

func (h *ordered[T]) len() int { return len(h.items) }

// first returns the least, the zero value when there is none.
func (h *ordered[T]) first() (x T) {
	if len(h.items) > 0 {
		x = h.items[0]
	}
	return x
}

func (h *ordered[T]) push(x T) {
	h.items = append(h.items, x)
	*h.place(x) = len(h.items) - 1
	h.up(len(h.items) - 1)
}

func (h *ordered[T]) remove(x T) {
	var none T
	i, last := *h.place(x), len(h.items)-1
	y := h.items[last]
	h.items[last] = none
	h.items = h.items[:last]
	if i < last {
		h.put(i, y)
		h.fix(y)
	}
}

// fix moves x to where it belongs now.
func (h *ordered[T]) fix(x T) {
	i := *h.place(x)
	if !h.down(i) {
		h.up(i)
	}
}

// clear empties the heap and keeps its memory.
func (h *ordered[T]) clear() {
	clear(h.items)
	h.items = h.items[:0]
}

func (h *ordered[T]) put(i int, x T) { h.items[i], *h.place(x) = x, i }

func (h *ordered[T]) up(i int) {
	x := h.items[i]
	for i > 0 {
		above := (i - 1) / 2
		if !h.less(x, h.items[above]) {
			break
		}
		h.put(i, h.items[above])
		i = above
	}
	h.put(i, x)
}

func (h *ordered[T]) down(from int) (moved bool) {
	i, x := from, h.items[from]
	for {
		below := 2*i + 1
		if below >= len(h.items) {
			break
		}
		if below+1 < len(h.items) && h.less(h.items[below+1], h.items[below]) {
			below++
		}
		if !h.less(h.items[below], x) {
			break
		}
		h.put(i, h.items[below])
		i = below
	}
	h.put(i, x)
	return i > from
}
