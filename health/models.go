package health

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/go-json-experiment/json/jsontext"
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

	// maxEntry and maxEntries bound, in bytes, what is kept of an entry besides
	// its name, and of all entries of a list.
	maxEntry   = 16 << 10
	maxEntries = 1 << 20
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
func (l *scraper) listModels(ctx context.Context) {
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
		l.upkeep.listed(list)
	}
}

// readModels reads a list as the OpenAI API has it, which is that of every engine
// here. The dialect, if one is known, says under which other names a model goes.
func readModels(body []byte, d *Dialect) ([]llmlb.Model, reason) {
	var list []llmlb.Model
	seen := make(map[string]bool)
	keep := func(m llmlb.Model) {
		if nameable(m.ID) && !seen[m.ID] && len(list) < maxListed {
			seen[m.ID] = true
			list = append(list, m)
		}
	}
	records, room := 0, maxEntries
	var implied []llmlb.Model
	err := readRecords(body, "data", func(r record, text []byte) bool {
		records++
		m := llmlb.Model{ID: r.text("id"), Parent: r.text("parent")}
		if !nameable(m.Parent) {
			m.Parent = ""
		}
		if nameable(m.ID) && !seen[m.ID] {
			m.Raw = entry(text, room)
			room -= len(m.Raw)
		}
		keep(m)
		if d != nil {
			implied = append(implied, llmlb.Model{ID: d.untagged(m.ID), Parent: m.Parent, Implied: true})
		}
		return len(list) < maxListed && records < maxRecords
	})
	for _, m := range implied {
		keep(m) // unless the engine lists it itself
	}
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

// entry returns what can be kept of a list's entry for clients: nothing if it is
// too long, or not JSON by the strict rules that some of them go by.
func entry(text []byte, room int) []byte {
	v := jsontext.Value(text)
	if len(v) > 2*maxEntry || !v.IsValid() {
		return nil
	}
	v = v.Clone()
	if v.Compact() != nil || len(v) > min(maxEntry, room) {
		return nil
	}
	return v
}

// mayLoad reports whether the engine might find, when a request names it, what its
// list lacks: unless the page has nothing of OnDemand's family, or says in every
// series that it is turned off. A family without any series says nothing yet.
func (d *Dialect) mayLoad(f *families, page []byte) bool {
	o := &d.OnDemand
	if o.Family == "" {
		return false
	}
	series := f.byName[o.Family].GetMetric()
	for _, m := range series {
		if room, ok := number(label(m, o.Room)); !ok || room != 0 {
			return true
		}
	}
	return len(series) == 0 && bytes.Contains(page, []byte(o.Family))
}
