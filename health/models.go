package health

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-llmlb/caddy-llmlb/llmlb"
)

// Which models and adapters a server has is asked where clients ask it, at
// /v1/models on the address that calls go to, by the endpoint's own loop after
// its scrape: never two requests at once, and nothing to end but the loop.

const (
	modelsPath = "/v1/models"

	// modelsEvery is how often the list is read. Adapters come and go while the
	// engine runs.
	modelsEvery = 30 * time.Second

	// modelsAgain is how soon it is read again when scrapes have failed in
	// between.
	modelsAgain = 5 * time.Second

	// A list has longer to come than a scrape with a short interval, since no
	// number ages while it does, but no longer than scrapes can wait for it.
	minModelsLimit = 500 * time.Millisecond
	maxModelsLimit = 2 * time.Second

	// maxListed bounds how many names of a list are kept.
	maxListed = 1024
)

// lister decides when the list of models is read. Pure.
type lister struct {
	due     time.Time // zero for as soon as the server answers
	asked   time.Time
	problem reason   // why the last list could not be read
	answers bool     // the server does, as far as is known
	dialect *Dialect // of the last scrape that was read
	lost    bool     // the last scrape was not
}

// scraped notes a scrape, read by the dialect or by none. A server that comes
// back may have other models, and one whose list failed while it loaded has it
// now; another dialect may know other names.
func (l *lister) scraped(now time.Time, p *page, by *Dialect) {
	l.answers = p.answered || !p.own
	if by == nil {
		l.lost = true
		return
	}
	if by != l.dialect || l.lost && (l.problem != "" || now.Sub(l.asked) > modelsAgain) {
		l.due = time.Time{}
	}
	l.dialect, l.lost = by, false
}

// restarted makes the list due.
func (l *lister) restarted() { l.due = time.Time{} }

// listModels reads the list when it is due. A failure leaves the old list, which
// stops being believed by itself.
func (l *loop) listModels(ctx context.Context) {
	s, now := l.runner.pool.Current(), time.Now()
	if !l.lister.answers || now.Before(l.lister.due) || !scraped(s, l.endpoint) {
		return
	}
	l.lister.asked = now
	l.lister.due = nextTick(l.runner.epoch, l.hash, modelsEvery, now)
	limit := min(max(s.Scrape.Interval, minModelsLimit), maxModelsLimit)
	listCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	page, why := fetch(listCtx, s, l.endpoint.Address(), ask{path: modelsPath, json: true, home: true}, limit)
	defer page.release()
	if ctx.Err() != nil {
		return
	}
	var list []llmlb.Model
	if why == "" {
		list, why = readModels(page.body, l.lister.dialect)
	}
	if why != "" && why != l.lister.problem {
		l.runner.log().Debug("model list not read", append(endpointFields(l.endpoint), zap.String("reason", string(why)))...)
	}
	if l.lister.problem = why; why == "" {
		l.endpoint.ObserveModels(time.Now(), list)
	}
}

// readModels reads a list as the OpenAI API has it, which is that of every engine
// here. The dialect, if one is known, says under which other names a model goes.
func readModels(body []byte, d *Dialect) ([]llmlb.Model, reason) {
	var list []llmlb.Model
	seen := make(map[string]bool)
	keep := func(id, parent string) {
		if nameable(id) && !seen[id] && len(list) < maxListed {
			seen[id] = true
			list = append(list, llmlb.Model{ID: id, Parent: parent})
		}
	}
	records := 0
	err := readRecords(body, "data", func(r record) bool {
		records++
		id, parent := r.text("id"), r.text("parent")
		if !nameable(parent) {
			parent = ""
		}
		keep(id, parent)
		if d != nil {
			keep(d.untagged(id), parent)
		}
		return len(list) < maxListed && records < maxRecords
	})
	switch {
	case errors.Is(err, errNotRecords):
		return nil, "no list of models"
	case err != nil:
		return nil, brokenJSON
	case len(list) >= maxListed || records >= maxRecords:
		// What stands behind the cut would be taken for not served.
		return nil, "too many models"
	}
	return list, ""
}
