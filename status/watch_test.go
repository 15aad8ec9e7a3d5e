package status

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// The watch looks each five seconds as long as nobody has a page open, each second
// while somebody has, and not at all once no configuration has one.
func TestWatchLooksAsOftenAsSomebodyDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := llmlb.Acquire("watched")
		defer pool.Release()
		w := acquireWatch()
		time.Sleep(100 * time.Millisecond)
		first, looks := marks(w)
		if first == 0 || looks != 0 {
			t.Fatalf("at first the newest step is %d and the pools were looked at %d times for pages", first, looks)
		}
		time.Sleep(20 * time.Second)
		if step, looks := marks(w); step-first != 4 || looks != 0 {
			t.Errorf("in 20 s without a page there were %d steps and %d looks for pages, want 4 and 0", step-first, looks)
		}
		s, ok := w.join(time.Now())
		if _, looks := marks(w); !ok || looks != 1 {
			t.Fatalf("a page that opens is told of %d looks, want one at once", looks)
		}
		time.Sleep(10 * time.Second)
		if _, looks := marks(w); looks != 11 {
			t.Errorf("in ten seconds with a page there were %d looks, want one each second", looks-1)
		}
		w.leave(s)
		w.mu.Lock()
		if w.live.pools != nil {
			t.Error("what pages are told is kept without one")
		}
		w.mu.Unlock()
		releaseWatch() // which waits for its goroutine: synctest would find it
	})
}

// marks are the newest step of the history, and how often the pools were looked at
// for pages.
func marks(w *watch) (step int64, looks uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.past.last, w.live.seq
}

// stuck is a connection whose reader takes nothing any more.
type stuck struct {
	*httptest.ResponseRecorder
	mu       sync.Mutex
	deadline time.Time
	writes   int
}

func (s *stuck) SetWriteDeadline(t time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deadline = t
	return nil
}

func (s *stuck) Write(b []byte) (int, error) {
	s.mu.Lock()
	until := s.deadline
	s.writes++
	s.mu.Unlock()
	if s.writes == 1 {
		return len(b), nil
	}
	time.Sleep(time.Until(until))
	return 0, os.ErrDeadlineExceeded
}

// A page that takes nothing for ten seconds is dropped: it must not hold a place
// among those that may be open.
func TestSlowReaderIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{logger: zap.NewNop(), ending: make(chan struct{})}
		w := acquireWatch()
		defer releaseWatch()
		s, _ := w.join(time.Now())
		defer w.leave(s)
		began := time.Now()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil)
		h.stream(&stuck{ResponseRecorder: httptest.NewRecorder()}, r, w, s)
		if took := time.Since(began); took < patience || took > patience+2*time.Second {
			t.Errorf("it was dropped after %v, want %v", took, patience)
		}
	})
}

// A stream with nothing to tell says each 15 seconds that it lives.
func TestIdleStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Handler{logger: zap.NewNop(), ending: make(chan struct{})}
		w := acquireWatch()
		defer releaseWatch()
		s, _ := w.join(time.Now())
		defer w.leave(s)
		rec := httptest.NewRecorder()
		go func() {
			time.Sleep(beat + time.Second)
			close(h.ending)
		}()
		h.stream(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/events", nil), w, s)
		if !rec.Flushed || strings.Count(rec.Body.String(), "event: beat\n") != 1 {
			t.Errorf("the stream is %q, want one beat in it", rec.Body)
		}
	})
}
