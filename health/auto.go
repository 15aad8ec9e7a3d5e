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

	// lookAgainAfter failures in a row, what was found is no longer trusted.
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
	return slices.Compact(names)
}

// finder decides where to look next for an endpoint's numbers and which
// dialects may read them. Pure.
type finder struct {
	engine, metrics string // what the settings ask for

	paths    []string          // looked at in turn, nil before the first look
	kept     *Dialect          // found, nil while it looks
	instead  reason            // why kept is not the engine's better page
	said     map[string]reason // why there are no numbers, by place
	look     int               // counts the places looked at; names the one kept
	failures int               // in a row, of kept
	pause    time.Duration
}

// next returns what to ask for next and the dialects that may read it. New
// settings begin anew.
func (f *finder) next(s *llmlb.Scrape) ([]*Dialect, ask) {
	if f.engine != s.Engine || f.metrics != s.Metrics {
		*f = finder{engine: s.Engine, metrics: s.Metrics}
	}
	places := f.places()
	if f.kept != nil {
		list := []*Dialect{f.kept}
		return list, askFor(list, places[f.look%len(places)])
	}
	for range places {
		if f.said[places[f.look%len(places)]] != jsonPage {
			break
		}
		f.look++
	}
	path := places[f.look%len(places)]
	list := f.believable(path)
	return list, askFor(list, path)
}

// askFor returns the request for a page that one of the dialects can read.
func askFor(list []*Dialect, path string) ask {
	a := ask{path: path}
	for _, d := range list {
		a.json = a.json || d.List != ""
		a.text = a.text || d.List == ""
	}
	return a
}

// jsonPage is what a server that keeps statistics in JSON says. TensorRT-LLM
// does at /metrics, and what was read there is gone for whoever collects it, so
// auto does not ask there again.
var jsonPage = contentReason("application/json")

// candidates are the dialects that the settings allow.
func (f *finder) candidates() []*Dialect {
	if named := dialectsNamed(f.engine); named != nil {
		return named
	}
	return dialects
}

// believable returns the dialects that the page of a place may be read with.
// What is at a path of JSON pages is read as those alone. Elsewhere JSON and
// plain names are believed only when the operator has named both engine and path.
func (f *finder) believable(place string) []*Dialect {
	path, _, _ := strings.Cut(cmp.Or(place, f.metrics), "?")
	var list []*Dialect
	for _, d := range f.candidates() {
		if d.List != "" && strings.HasSuffix(path, d.Path) {
			list = append(list, d)
		}
	}
	if list != nil {
		return list
	}
	vouched := place == "" && dialectsNamed(f.engine) != nil
	for _, d := range f.candidates() {
		if vouched || strings.HasSuffix(path, d.Path) || !d.Plain && d.List == "" {
			list = append(list, d)
		}
	}
	return list
}

// places are the paths looked at in turn.
func (f *finder) places() []string {
	if f.paths == nil {
		f.paths = f.findPlaces()
	}
	return f.paths
}

func (f *finder) findPlaces() []string {
	if src, _ := parseSource(f.metrics); src.path != "" || src.url != nil {
		return []string{""} // the settings say where
	}
	var paths []string
	for _, d := range f.candidates() {
		if !slices.Contains(paths, d.Path) {
			paths = append(paths, d.Path)
		}
	}
	return paths
}

// found notes a page that the dialect could read. After a restart another
// engine may stand there, so everything is tried again.
func (f *finder) found(d *Dialect, restarted bool) {
	if f.kept != d {
		f.instead = f.better(d)
	}
	f.kept, f.failures, f.pause = d, 0, 0
	if restarted {
		f.kept = nil
	}
}

// better returns why the engine's numbers are not read where it tells more.
func (f *finder) better(d *Dialect) reason {
	first := dialectsNamed(d.Name)[0]
	why := f.said[first.Path]
	if first == d || why == "" {
		return ""
	}
	note := reason(d.Path + " is read, for " + first.Path + " says " + string(why))
	return note[:min(len(note), maxReason)]
}

// failed notes a scrape without numbers, and returns the reason to show and the
// pause before the next. Only where the server itself made clear that there are
// no numbers is looking again soon a waste. One that cannot be reached, or is
// still loading, may be there any moment.
func (f *finder) failed(s *llmlb.Scrape, p *page, why reason) (reason, time.Duration) {
	if p.undialed {
		clear(f.said) // gone; what comes up next may be another
	}
	if f.kept != nil {
		if f.failures++; f.failures >= lookAgainAfter {
			f.kept, f.failures, f.look = nil, 0, 0
			clear(f.said)
		}
		return why, 0
	}
	if !p.conclusive || why == notReady {
		return why, 0
	}
	places := f.places()
	if f.said == nil {
		f.said = make(map[string]reason)
	}
	f.said[places[f.look%len(places)]] = why
	why = f.telling(places, why)
	f.look++
	if dialectsNamed(s.Engine) != nil || f.look%len(places) != 0 {
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
