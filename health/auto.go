package health

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

const (
	// auto finds the engine from the families on its page.
	auto = "auto"

	// none scrapes nothing: endpoints are judged by our own calls alone.
	none = "none"

	// lookAgainAfter failures in a row, auto no longer trusts what it found.
	lookAgainAfter = 3

	// maxPause is how long auto waits, at most, before it looks again at a
	// server on which it found no metrics of a known engine.
	maxPause = 30 * time.Second
)

// Engines lists the values of the option "engine".
func Engines() []string {
	names := make([]string, 0, 2+len(dialects))
	names = append(names, auto, none)
	for _, d := range dialects {
		names = append(names, d.Name)
	}
	slices.Sort(names[2:])
	return names
}

// finder decides where to look next for an endpoint's numbers and which
// dialects may read them. Pure.
type finder struct {
	engine, metrics string // what the settings ask for

	kept     *Dialect          // found by auto, nil while it looks
	said     map[string]reason // why there are no numbers, by place
	look     int               // counts the places looked at; names the one kept
	failures int               // in a row, of kept
	pause    time.Duration
}

// next returns the dialects to try on the next page and that page's path
// where the settings name none. New settings begin anew.
func (f *finder) next(s *llmlb.Scrape) ([]*Dialect, string) {
	if f.engine != s.Engine || f.metrics != s.Metrics {
		*f = finder{engine: s.Engine, metrics: s.Metrics}
	}
	if d := dialectNamed(s.Engine); d != nil {
		return []*Dialect{d}, d.Path
	}
	places := f.places()
	if f.kept != nil {
		return []*Dialect{f.kept}, places[f.look%len(places)]
	}
	for range places {
		if f.said[places[f.look%len(places)]] != jsonPage {
			break
		}
		f.look++
	}
	path := places[f.look%len(places)]
	return believable(cmp.Or(path, f.metrics)), path
}

// jsonPage is what a server that keeps statistics in JSON says. TensorRT-LLM
// does at /metrics, and what was read there is gone for whoever collects it, so
// auto does not ask there again.
var jsonPage = contentReason("application/json")

// believable returns the dialects that a page at the path may be read with.
func believable(path string) []*Dialect {
	return slices.DeleteFunc(slices.Clone(dialects), func(d *Dialect) bool {
		return d.Plain && !strings.HasSuffix(path, d.Path)
	})
}

// places are the paths auto looks at in turn.
func (f *finder) places() []string {
	if src, _ := parseSource(f.metrics); src.path != "" || src.url != nil {
		return []string{""} // the settings say where
	}
	var paths []string
	for _, d := range dialects {
		if !slices.Contains(paths, d.Path) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// found notes a page that the dialect could read. After a restart another
// engine may stand there, so everything is tried again.
func (f *finder) found(d *Dialect, restarted bool) {
	f.kept, f.failures, f.pause = d, 0, 0
	if restarted {
		f.kept = nil
	}
}

// failed notes a scrape without numbers, and returns the reason to show and the
// pause before the next. Only where the server itself made clear that there are
// no numbers is looking again soon a waste. One that cannot be reached, or is
// still loading, may be there any moment.
func (f *finder) failed(s *llmlb.Scrape, p *page, why reason) (reason, time.Duration) {
	if dialectNamed(s.Engine) != nil {
		return why, 0
	}
	if p.undialed {
		clear(f.said) // gone; what comes up next may be another
	}
	if f.kept != nil {
		if f.failures++; f.failures >= lookAgainAfter {
			f.kept, f.failures = nil, 0
			clear(f.said)
		}
		return why, 0
	}
	if !p.conclusive {
		return why, 0
	}
	places := f.places()
	if f.said == nil {
		f.said = make(map[string]reason)
	}
	f.said[places[f.look%len(places)]] = why
	why = f.telling(places, why)
	f.look++
	if f.look%len(places) != 0 {
		return why, 0
	}
	f.pause = min(2*max(f.pause, s.Interval), maxPause)
	return why, f.pause
}

// telling returns the reason that helps an operator most: that some of the
// places do not exist is so with every server.
func (f *finder) telling(places []string, last reason) reason {
	for _, place := range places {
		if why := f.said[place]; why != "" && why != statusReason(http.StatusNotFound) {
			return why
		}
	}
	return last
}
