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
	told   reason               // why scrapes fail, as far as the log knows; "" when they do not
	logged map[reason]time.Time // when each reason was logged last
}

// failed notes a scrape that told nothing.
func (n *news) failed(l *loop, now time.Time, why reason) {
	if n.told == why {
		return
	}
	if at, before := n.logged[why]; before && now.Sub(at) < quiet {
		return
	}
	maps.DeleteFunc(n.logged, func(_ reason, at time.Time) bool { return now.Sub(at) >= quiet })
	if len(n.logged) >= maxReasons {
		return
	}
	if n.logged == nil {
		n.logged = make(map[reason]time.Time)
	}
	n.logged[why], n.told = now, why
	l.runner.log().Warn("scrape failed", append(endpointFields(l.endpoint), zap.String("reason", string(why)))...)
}

// read notes a scrape that told load.
func (n *news) read(l *loop, d *Dialect, restarted bool) {
	if n.engine != d.Name {
		n.engine = d.Name
		l.runner.log().Info("engine recognized", append(endpointFields(l.endpoint), zap.String("engine", d.Name))...)
	}
	if restarted {
		l.runner.log().Info("engine restarted", endpointFields(l.endpoint)...)
	}
	if n.told != "" {
		n.told = ""
		l.runner.log().Info("scrape recovered", endpointFields(l.endpoint)...)
	}
}
