package health

import (
	"maps"
	"time"

	"go.uber.org/zap"
)

// quiet is how long the same reason is not logged again for an endpoint, so
// that one which fails every other scrape does not fill the log.
const quiet = time.Minute

// maxReasons bounds how many reasons are logged for an endpoint within quiet.
const maxReasons = 16

// news decides which results of a loop are worth a log line: changes only.
type news struct {
	engine string               // recognized last
	page   string               // where its numbers were read last
	told   reason               // why scrapes fail, as far as the log knows; "" when they do not
	doubt  reason               // what was not believed on the last page that told load
	logged map[reason]time.Time // when each reason was logged last
}

// failed notes a scrape that told nothing.
func (n *news) failed(l *scraper, now time.Time, why reason) {
	if n.told != why && n.fresh(now, why) {
		n.told = why
		l.runner.log().Warn("scrape failed", append(endpointFields(l.endpoint), zap.String("reason", string(why)))...)
	}
}

// doubted notes whether a scrape that told load told something else that cannot
// be.
func (n *news) doubted(l *scraper, now time.Time, doubt reason) {
	if doubt != "" && n.doubt != doubt && n.fresh(now, doubt) {
		l.runner.log().Warn("metric not believed", append(endpointFields(l.endpoint), zap.String("reason", string(doubt)))...)
	}
	n.doubt = doubt
}

// fresh reports whether the reason may be logged, and notes that it was.
func (n *news) fresh(now time.Time, why reason) bool {
	if at, before := n.logged[why]; before && now.Sub(at) < quiet {
		return false
	}
	maps.DeleteFunc(n.logged, func(_ reason, at time.Time) bool { return now.Sub(at) >= quiet })
	if len(n.logged) >= maxReasons {
		return false
	}
	if n.logged == nil {
		n.logged = make(map[reason]time.Time)
	}
	n.logged[why] = now
	return true
}

// read notes a scrape that told load, and reports whether it was another engine's
// than the last.
func (n *news) read(l *scraper, d *Dialect, restarted bool) (another bool) {
	another = n.engine != d.Name
	if n.engine != d.Name || n.page != d.Path {
		n.engine, n.page = d.Name, d.Path
		fields := append(endpointFields(l.endpoint), zap.String("engine", d.Name))
		if why := l.finder.instead; why != "" {
			fields = append(fields, zap.String("reason", string(why)))
		}
		l.runner.log().Info("engine recognized", fields...)
	}
	if restarted {
		l.runner.log().Info("engine restarted", endpointFields(l.endpoint)...)
	}
	if n.told != "" {
		n.told = ""
		l.runner.log().Info("scrape recovered", endpointFields(l.endpoint)...)
	}
	return another
}
